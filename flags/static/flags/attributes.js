// The attributes of the user in the tryout of a flag: rows of a name and a value, over the textarea with the JSON.
// Each attribute that the flag reads has a row. A row without a value is not sent.
import { addButton, iconButton, isObject, make, textInput } from "../config/elements.js";
import { whenRestored } from "../config/restored.js";

for (const textarea of document.querySelectorAll('textarea[data-editor="attributes"]')) mount(textarea);

function mount(textarea) {
  const rows = make("div", { class: "hy-editor-cards" });
  const toggle = addButton("", () => (textarea.hidden ? showText() : showRows()));
  const add = addButton("Add an attribute", () => {
    entries.push(["", ""]);
    draw();
    rows.querySelector(".hy-row:last-child input")?.focus();
  });
  const editor = make("div", { class: "hy-editor" }, rows, make("div", { class: "hy-editor-bar" }, add, toggle));
  textarea.before(editor);
  editor.prepend(textarea);
  let entries = [];

  const save = () => {
    textarea.value = JSON.stringify(Object.fromEntries(entries.filter(([name, value]) => name && value !== "")), null, 2);
  };

  function draw() {
    rows.replaceChildren(...entries.map((entry) => {
      const name = textInput(entry[0], { placeholder: "attribute, such as plan", "aria-label": "Attribute" }, () => {
        entry[0] = name.value;
        save();
      });
      const value = textInput(written(entry[1]), { placeholder: "value: text, a number, true or a list", "aria-label": "Value" }, () => {
        entry[1] = read(value.value);
        save();
      });
      return make("div", { class: "hy-row" }, make("div", { class: "hy-field" }, name), make("div", { class: "hy-field" }, value), iconButton("close", "Remove this attribute", () => {
        entries = entries.filter((other) => other !== entry);
        save();
        draw();
      }));
    }));
  }

  function show(isText) {
    textarea.hidden = !isText;
    rows.hidden = add.hidden = isText;
    toggle.textContent = isText ? "As rows" : "As JSON";
  }

  function showText() {
    show(true);
    textarea.focus();
  }

  function showRows() {
    const attributes = parse(textarea.value);
    if (attributes === null) return show(true);
    const missing = JSON.parse(textarea.dataset.names ?? "[]").filter((name) => !(name in attributes));
    entries = [...Object.entries(attributes), ...missing.map((name) => [name, ""])];
    draw();
    return show(false);
  }

  showRows();
  whenRestored(showRows);
}

function parse(text) {
  if (!text.trim()) return {};
  // A JavaScript number would not keep all of these digits.
  if (/\d{16}/.test(text.replace(/"(?:[^"\\]|\\.)*"/g, '""'))) return null;
  try {
    const found = JSON.parse(text);
    return isObject(found) && !Array.isArray(found) ? found : null;
  } catch {
    return null;
  }
}

/** Read a value: `42`, `true`, `null`, `[...]`, `{...}` and the text `"42"` are JSON; anything else, as `pro`, is a text. */
function read(text) {
  if (/\d{16}/.test(text)) return text;
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

function written(value) {
  return typeof value === "string" && read(value) === value ? value : JSON.stringify(value);
}
