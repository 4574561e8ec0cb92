// The editor of the flags that this flag needs, over the textarea that holds them as JSON.
import { choice, field, jsonControl, make } from "../config/elements.js";
import { listEditor } from "../config/list_editor.js";
import { flagChoice, variantsOf, whenKnown } from "./known_flags.js";

listEditor({
  name: "prerequisites",
  noun: "prerequisite",
  empty: "None: this flag depends on no other.",
  isOrdered: false,
  blank: () => ({ flag: "" }),
  card: (prerequisite, tools) => {
    if (prerequisite === null || typeof prerequisite !== "object" || Array.isArray(prerequisite)) {
      return { head: [jsonControl("input", prerequisite, { "aria-label": "Prerequisite as JSON" }, tools.replace)], body: [] };
    }
    const requirement = make("div", { class: "hy-row" });
    const show = () => requirement.replaceChildren(...variantFields(prerequisite, tools));
    show();
    whenKnown(prerequisite.flag, () => requirement.querySelector(".hy-error") || show());
    return { head: [make("div", { class: "hy-row" }, flagField(prerequisite, show, tools), requirement)], body: [] };
  },
});

function flagField(prerequisite, showRequirement, { redraw, save }) {
  const control = flagChoice(prerequisite.flag, { "aria-label": "Flag", placeholder: "choose a flag" }, (key) => {
    if (key !== prerequisite.flag) delete prerequisite.variants;
    prerequisite.flag = key;
    if (control.tagName === "SELECT") return redraw();
    save(); // and not drawn again, so that the field stays in which a text is being typed
    return showRequirement();
  });
  return field(".flag", "Flag", control);
}

/** Make the choice of the variants that meet the prerequisite: any, or some. */
function variantFields(prerequisite, { redraw, save }) {
  const keys = [...new Set([...variantsOf(prerequisite.flag), ...(prerequisite.variants ?? [])])];
  if (!keys.length) return [make("span", { class: "hy-muted" }, "must be on for the user")];
  const select = choice([["any", "must be on"], ["some", "must be on and serve"]], prerequisite.variants ? "some" : "any", { "aria-label": "Requirement" }, () => {
    if (select.value === "any") delete prerequisite.variants;
    else prerequisite.variants = keys.slice(0, 1);
    redraw();
  });
  const boxes = prerequisite.variants && make("div", { class: "hy-checks", "data-path": ".variants" }, ...keys.map((key) => {
    const box = make("input", { type: "checkbox", checked: prerequisite.variants.includes(key), onchange: () => {
      prerequisite.variants = keys.filter((other) => (other === key ? box.checked : prerequisite.variants.includes(other)));
      save();
    } });
    return make("label", {}, box, key);
  }));
  return [field(".kind", "Requirement", select), ...(boxes ? [boxes] : [])];
}
