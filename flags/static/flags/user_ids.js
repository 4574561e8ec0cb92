// Edits a long list of user ids by the ids to add and to remove, since typing a letter into a text of 100,000 lines takes
// browsers a third of a second. The form still sends the textarea.
import { labelled, linesArea, make } from "../config/elements.js";
import { joinedNotice, joinedNoticeOf } from "../config/joined_values.js";
import { fromLine, toLine, valuesIn } from "../config/lines.js";
import { whenRestored } from "../config/restored.js";
import { lineOfUsers } from "../config/user_pages.js";

const MANY = 2_000;

for (const textarea of document.querySelectorAll("textarea[name=user_ids]")) {
  const ids = valuesIn(textarea);
  if (ids.length > MANY) mount(textarea);
  else name(textarea, ids);
}

function name(textarea, ids) {
  const { line, show } = lineOfUsers();
  const joined = joinedNoticeOf(textarea);
  textarea.after(joined.notice, line);
  textarea.addEventListener("input", () => show(valuesIn(textarea)));
  show(ids);
  whenRestored(() => {
    joined.update();
    show(valuesIn(textarea));
  });
}

function mount(textarea) {
  let ids = [];
  let listed = new Set();
  const joined = joinedNotice((lines) => {
    begin(lines.map(fromLine));
    whole.focus();
  });
  const edits = { added: [], removed: [] };
  const count = make("p", { class: "hy-note" });
  const linesOf = (edit, label) => linesArea([], { rows: 3, placeholder: "One a line", "aria-label": label }, (values) => {
    edits[edit] = values;
  });
  const controls = [linesOf("added", "Ids to add"), linesOf("removed", "Ids to remove")];
  const [add, remove] = controls.map((control, at) => labelled("", ["Add", "Remove"][at], control, joinedNoticeOf(control).notice));
  const whole = make("button", { type: "button", class: "hy-button", onclick: () => {
    apply();
    textarea.form.removeEventListener("submit", apply);
    editor.replaceWith(textarea);
    textarea.hidden = false;
    textarea.after(joinedNoticeOf(textarea).notice);
  } }, "Edit the whole list");
  const editor = make("div", { class: "hy-editor", onchange: apply }, count, joined.notice, add, remove, make("div", { class: "hy-editor-bar" }, whole));

  /** Edit this list from here on. */
  function begin(listing) {
    ids = listing;
    listed = new Set(ids);
    joined.show(ids.map(toLine));
    apply();
  }

  function apply() {
    const gone = new Set(edits.removed);
    const added = [...new Set(edits.added)].filter((id) => !listed.has(id) && !gone.has(id));
    const left = ids.filter((id) => !gone.has(id));
    textarea.value = [...left, ...added].map(toLine).join("\n");
    const changes = [added.length && `${added.length} to add`, ids.length - left.length && `${ids.length - left.length} to remove`].filter(Boolean);
    count.textContent = [`${(left.length + added.length).toLocaleString("en")} users are listed`, ...changes].join(" · ");
  }

  textarea.hidden = true;
  textarea.before(editor);
  editor.append(textarea);
  textarea.form.addEventListener("submit", apply);
  begin(valuesIn(textarea));
  whenRestored(() => {
    const restored = valuesIn(textarea); // with the edits in it
    for (const control of controls) {
      control.value = "";
      control.dispatchEvent(new Event("input"));
    }
    begin(restored);
  });
}
