// Edits a long list of user ids by the ids to add and to remove, since typing a letter into a text of 100,000 lines takes
// browsers a third of a second. The form still sends the textarea.
import { labelled, linesArea, make } from "../config/elements.js";
import { lineOfUsers } from "../config/user_pages.js";

const MANY = 2_000;

for (const textarea of document.querySelectorAll("textarea[name=user_ids]")) {
  const ids = textarea.value.split("\n").filter((line) => line.trim());
  if (ids.length > MANY) mount(textarea, ids);
  else name(textarea, ids);
}

function name(textarea, ids) {
  const { line, show } = lineOfUsers();
  textarea.after(line);
  textarea.addEventListener("input", () => show(textarea.value.split("\n")));
  show(ids);
}

function mount(textarea, ids) {
  const listed = new Set(ids);
  const edits = { added: [], removed: [] };
  const count = make("p", { class: "hy-note" });
  const area = (edit, label) => labelled("", label, linesArea([], { rows: 3, placeholder: "One a line", "aria-label": `Ids to ${label.toLowerCase()}` }, (lines) => {
    edits[edit] = lines;
  }));
  const whole = make("button", { type: "button", class: "hy-button", onclick: () => {
    apply();
    textarea.form.removeEventListener("submit", apply);
    editor.replaceWith(textarea);
    textarea.hidden = false;
  } }, "Edit the whole list");
  const editor = make("div", { class: "hy-editor", onchange: apply }, count, area("added", "Add"), area("removed", "Remove"), make("div", { class: "hy-editor-bar" }, whole));

  function apply() {
    const gone = new Set(edits.removed);
    const added = [...new Set(edits.added)].filter((id) => !listed.has(id) && !gone.has(id));
    const left = ids.filter((id) => !gone.has(id));
    textarea.value = [...left, ...added].join("\n");
    const changes = [added.length && `${added.length} to add`, ids.length - left.length && `${ids.length - left.length} to remove`].filter(Boolean);
    count.textContent = [`${(left.length + added.length).toLocaleString("en")} users are listed`, ...changes].join(" · ");
  }

  textarea.hidden = true;
  textarea.before(editor);
  editor.append(textarea);
  textarea.form.addEventListener("submit", apply);
  apply();
}
