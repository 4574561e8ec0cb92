// Turns a textarea with a JSON object, or an empty one, into fields. The form sends the textarea. Without this script,
// or for a text that is not an object, users edit the textarea itself.
import { isObject, make } from "../config/elements.js";
import { whenRestored } from "../config/restored.js";

function parse(text) {
  if (!text.trim()) return {};
  try {
    const value = JSON.parse(text);
    return isObject(value) && !Array.isArray(value) ? value : null;
  } catch {
    return null;
  }
}

/**
 * Enhance every textarea with `data-editor="<name>"`. `draw(value, { save, redraw })` returns the elements that edit an
 * object. `save(changed)` stores the new object, or null. The editor is drawn again when an element that `watched`
 * selects changes.
 */
export function objectEditor({ name, draw, watched = null }) {
  for (const textarea of document.querySelectorAll(`textarea[data-editor="${name}"]`)) mount(textarea);

  function mount(textarea) {
    if (parse(textarea.value) === null) return;
    const editor = make("div", { class: "hy-editor", "data-editor-of": name });
    textarea.before(editor);
    textarea.hidden = true;
    const save = (changed) => {
      textarea.value = changed === null ? "" : JSON.stringify(changed, null, 2);
      textarea.dispatchEvent(new Event("change", { bubbles: true }));
    };
    const redraw = () => editor.replaceChildren(...draw(parse(textarea.value), { save, redraw }).filter((element) => element !== null));
    redraw();
    whenRestored(redraw);
    for (const element of watched ? document.querySelectorAll(watched) : []) element.addEventListener("change", redraw);
  }
}

/** The keys of the experiment's variants, from the form or from the server. */
export function variantKeys() {
  const textarea = document.querySelector('textarea[data-editor="variants"]');
  const stored = document.getElementById("hy-variants");
  try {
    const variants = JSON.parse(textarea?.value ?? stored?.textContent ?? "[]");
    return variants.map((variant) => variant?.key).filter((key) => typeof key === "string" && key !== "");
  } catch {
    return [];
  }
}
