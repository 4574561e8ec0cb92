// The editors of whom an experiment takes in: its conditions, its part of a group, and its testers.
import { addButton, choice, iconButton, jsonControl, known, make, numberOrText, textInput } from "../config/elements.js";
import { listEditor } from "../config/list_editor.js";
import { blankCondition, conditionFields, isCondition } from "../flags/conditions.js";
import { objectEditor, variantKeys } from "./object_editor.js";

listEditor({
  name: "conditions",
  noun: "condition",
  empty: "No conditions: everybody may be taken in.",
  isOrdered: false,
  blank: blankCondition,
  card: (condition, tools) => {
    if (!isCondition(condition)) return { head: [jsonControl("input", condition, { "aria-label": "Condition as JSON" }, tools.replace)], body: [] };
    return { head: [make("div", { class: "hy-row" }, ...conditionFields(condition, "", tools))], body: [] };
  },
});

const groups = known("hy-groups", {});
const suggestions = make("datalist", { id: "hy-group-keys" }, ...Object.keys(groups).map((key) => make("option", { value: key })));
document.body.append(suggestions);

objectEditor({
  name: "group",
  draw: (group, { save }) => {
    const note = make("p", { class: "hy-muted" });
    const told = () => {
      note.hidden = !key.value;
      note.textContent = Object.hasOwn(groups, key.value) ? `Free of it: ${groups[key.value]}.` : "A new group: all of it is free.";
    };
    const changed = () => {
      save(key.value ? { key: key.value, from: numberOrText(from.value), to: numberOrText(to.value) } : null);
      told();
    };
    const key = textInput(group.key ?? "", { list: suggestions.id, placeholder: "no group", "aria-label": "Group" }, changed);
    const from = textInput(String(group.from ?? 0), { inputmode: "decimal", "aria-label": "From, in percent" }, changed);
    const to = textInput(String(group.to ?? 100), { inputmode: "decimal", "aria-label": "To, in percent" }, changed);
    told();
    return [make("div", { class: "hy-row hy-group-part" },
      make("div", { class: "hy-field" }, key),
      make("span", { class: "hy-caption" }, "from"), make("div", { class: "hy-field hy-narrow" }, from),
      make("span", { class: "hy-caption" }, "to"), make("div", { class: "hy-field hy-narrow" }, to),
      make("span", { class: "hy-muted" }, "%")), note];
  },
});

objectEditor({
  name: "testers",
  watched: 'textarea[data-editor="variants"]',
  draw: (forced, { save, redraw }) => {
    const rows = Object.entries(forced);
    const change = (changed) => {
      save(Object.fromEntries(changed));
      redraw();
    };
    const keys = variantKeys().map((key) => [key, key]);
    const cards = rows.map(([user, variant], at) => {
      const put = (entry) => rows.map((row, place) => (place === at ? entry : row));
      const id = textInput(user, { placeholder: "user id", "aria-label": "User id" }, () => {
        rows[at] = [id.value, rows[at][1]];
        save(Object.fromEntries(rows));
      });
      const sees = choice(keys, variant, { "aria-label": "Variant" }, () => change(put([id.value, sees.value])));
      return make("div", { class: "hy-row hy-tester" },
        make("div", { class: "hy-field" }, id), make("span", { class: "hy-caption" }, "sees"),
        make("div", { class: "hy-field" }, sees),
        iconButton("close", `Remove ${user || "this tester"}`, () => change(rows.filter((_, place) => place !== at))));
    });
    return [...cards, make("div", {}, addButton("Add a tester", () => change([...rows, ["", keys[0]?.[0] ?? ""]])))];
  },
});
