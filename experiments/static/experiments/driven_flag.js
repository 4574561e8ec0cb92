// The editor of the flag that an experiment drives, and of what it serves for each variant.
import { choice, labelled, make, numberOrText, textInput } from "../config/elements.js";
import { flagChoice, variantsOf, whenKnown } from "../flags/known_flags.js";
import { objectEditor, variantKeys } from "./object_editor.js";

const SWITCHED = [["false", "off"], ["true", "on"]];

/** The options that a flag can serve, as pairs for a select; a flag without variants is on or off. */
function servable(key) {
  const variants = variantsOf(key);
  return variants.length ? variants.map((key) => [key, key]) : SWITCHED;
}

/** The default: the flag serves its first option for the control, and the next ones for the other variants. */
function servedByDefault(key) {
  const options = servable(key);
  return Object.fromEntries(variantKeys().map((variant, at) => [variant, stored(options[Math.min(at, options.length - 1)][0], options)]));
}

function stored(text, options) {
  return options === SWITCHED ? text === "true" : text;
}

objectEditor({
  name: "driven-flag",
  watched: 'textarea[data-editor="variants"]',
  draw: (flag, { save, redraw }) => {
    const rows = make("div", { class: "hy-editor-cards" });
    const show = (chosen) => {
      rows.hidden = !chosen.key;
      rows.replaceChildren(...(chosen.key ? servedFields(chosen, save) : []));
    };
    const choose = (key) => {
      const chosen = key ? { key, serves: servedByDefault(key) } : {};
      save(key ? chosen : null);
      // While a text is being typed, its field stays.
      if (which.tagName === "SELECT") redraw();
      else show(chosen);
    };
    const which = flagChoice(flag.key, { "aria-label": "Flag", placeholder: "no flag" }, choose);
    if (which.tagName === "SELECT" && flag.key) which.prepend(make("option", { value: "" }, "no flag"));
    show(flag);
    whenKnown(flag.key, () => which.value === flag.key && show(flag));
    return [make("div", { class: "hy-field" }, which), rows];
  },
});

/** The choices of what a flag serves for each variant, and the position of the experiment's rule. */
function servedFields(flag, save) {
  const options = servable(flag.key);
  const serves = Object.fromEntries(variantKeys().map((variant) => [variant, flag.serves?.[variant] ?? servedByDefault(flag.key)[variant]]));
  const rows = Object.entries(serves).map(([variant, served]) => {
    const select = choice(options, String(served), { "aria-label": `What the flag serves for ${variant}` }, () => {
      serves[variant] = stored(select.value, options);
      flag = { ...flag, serves };
      save(flag);
    });
    return labelled("", variant, select);
  });
  return [...rows, positionField(flag, (position) => {
    const { position: _, ...others } = flag;
    flag = position === "" ? others : { ...others, position };
    save(flag);
  })];
}

/** The number of the flag's rules that come before the experiment's rule. */
function positionField({ position }, onchange) {
  const label = "How many rules of the flag come first";
  const input = textInput(String(position ?? ""), { inputmode: "numeric", placeholder: "0", "aria-label": label }, () => onchange(numberOrText(input.value.trim())));
  return labelled(".position", label, make("div", { class: "hy-field hy-narrow" }, input),
    make("span", { class: "hy-muted" }, "Users whom one of these rules matches are not in the experiment. 0: its rule is the first."));
}

// Before the form is sent: add variants that are new or renamed, and drop those that were removed.
document.querySelector('textarea[data-editor="driven-flag"]')?.form?.addEventListener("submit", ({ currentTarget }) => {
  const textarea = currentTarget.querySelector('textarea[data-editor="driven-flag"]');
  if (!textarea.hidden || !textarea.value) return;
  const flag = JSON.parse(textarea.value);
  const served = servedByDefault(flag.key);
  const serves = Object.fromEntries(Object.keys(served).map((variant) => [variant, flag.serves?.[variant] ?? served[variant]]));
  textarea.value = JSON.stringify({ ...flag, serves }, null, 2);
});
