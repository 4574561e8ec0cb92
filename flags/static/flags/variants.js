// The editor of a flag's variants by their type, and the choices among them. Fields that a flag without variants does not
// need are hidden.
import { choice, field, jsonControl, make, numberOrText, textInput } from "../config/elements.js";
import { listEditor } from "../config/list_editor.js";
import { whenRestored } from "../config/restored.js";
import { VARIANTS, variantKeys } from "./variant_keys.js";

const type = document.querySelector("select[name=type]");
const BLANK = { boolean: true, string: "", number: 0, object: {} };
const DEPENDENT = ["variants", "off_variant", "default_variant", "schema"];

function variantCard(variant, { save }) {
  const key = textInput(variant.key ?? "", { placeholder: "key, such as blue", "aria-label": "Key" }, () => {
    variant.key = key.value;
    save();
  });
  const control = (CONTROLS[type?.value] ?? CONTROLS.object)(variant.value, (value) => {
    variant.value = value;
    save();
  });
  const value = field(".value", "Value", control);
  const isLong = control.tagName === "TEXTAREA";
  return { head: [make("div", { class: "hy-row" }, field(".key", "Key", key), isLong ? null : value)], body: isLong ? [value] : [] };
}

const CONTROLS = {
  boolean: (value, set) => {
    if (typeof value !== "boolean") return jsonControl("input", value, {}, set);
    const select = choice([["true", "true: the flag is on"], ["false", "false: the flag is off"]], String(value), {}, () => set(select.value === "true"));
    return select;
  },
  string: (value, set) => {
    if (typeof value !== "string") return jsonControl("input", value, {}, set);
    const isLong = value.length > 60 || value.includes("\n");
    const input = isLong ? make("textarea", { class: "hy-input", rows: 4, oninput: () => set(input.value) }) : textInput(value, { placeholder: "text" }, () => set(input.value));
    input.value = value;
    return input;
  },
  number: (value, set) => {
    const input = textInput(typeof value === "object" ? JSON.stringify(value) : String(value ?? ""), { inputmode: "decimal", placeholder: "number" }, () => set(numberOrText(input.value)));
    return input;
  },
  object: (value, set) => jsonControl("textarea", value, { rows: Math.min(14, Math.max(3, JSON.stringify(value, null, 2)?.split("\n").length ?? 0)) }, set),
};

/** Put a select in place of the input that names a variant. The form still sends the input. */
function chooseAmongVariants(input) {
  const select = make("select", { class: `${input.className} hy-select`, id: input.id, "aria-describedby": input.getAttribute("aria-describedby"), onchange: () => {
    input.value = select.value;
  } });
  const draw = () => {
    const keys = variantKeys();
    const all = input.value && !keys.includes(input.value) ? [input.value, ...keys] : keys;
    select.replaceChildren(make("option", { value: "" }, input.dataset.none), ...all.map((key) => make("option", { value: key }, key)));
    select.value = input.value;
  };
  input.removeAttribute("id");
  input.hidden = true;
  input.before(select);
  document.querySelector(VARIANTS)?.addEventListener("change", draw);
  draw();
  whenRestored(draw);
}

function rowOf(name) {
  return document.querySelector(`[name="${name}"]`)?.closest(".field-line");
}

function hideUnused() {
  for (const name of DEPENDENT) {
    const row = rowOf(name);
    if (row) row.hidden = !type.value && !document.querySelector(`[name="${name}"]`).value.replace(/^(\[\s*\]|)$/, "");
  }
}

listEditor({
  name: "variants",
  noun: "variant",
  empty: "No variants: the flag is only on or off.",
  watched: "select[name=type]",
  blank: () => ({ key: "", value: BLANK[type?.value] ?? "" }),
  card: (variant, tools) => {
    if (variant === null || typeof variant !== "object" || Array.isArray(variant)) {
      return { head: [jsonControl("input", variant, { "aria-label": "Variant as JSON" }, tools.replace)], body: [] };
    }
    return variantCard(variant, tools);
  },
});

for (const input of document.querySelectorAll("input[data-none]")) chooseAmongVariants(input);
if (type) {
  type.addEventListener("change", hideUnused);
  hideUnused();
  whenRestored(hideUnused);
}
