// The editors of an experiment's audience: its conditions, its range in a group, and its testers.
import { addButton, choice, iconButton, jsonControl, known, make, percentOrText, textInput } from "../config/elements.js";
import { listEditor } from "../config/list_editor.js";
import { fromLine, toInput } from "../config/lines.js";
import { linkToUser } from "../config/user_pages.js";
import { blankCondition, conditionFields, isCondition } from "../flags/conditions.js";
import { objectEditor, variantKeys } from "./object_editor.js";

listEditor({
  name: "conditions",
  noun: "condition",
  empty: "No conditions: everyone can take part.",
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
    const describe = () => {
      note.hidden = !key.value;
      note.textContent = Object.hasOwn(groups, key.value) ? `Free ranges: ${groups[key.value]}.` : "This is a new group, so all of it is free.";
    };
    const changed = () => {
      save(key.value ? { key: key.value, from: percentOrText(from.value), to: percentOrText(to.value) } : null);
      describe();
    };
    const key = textInput(group.key ?? "", { list: suggestions.id, placeholder: "no group", "aria-label": "Group" }, changed);
    const from = textInput(String(group.from ?? 0), { inputmode: "decimal", "aria-label": "From, in percent" }, changed);
    const to = textInput(String(group.to ?? 100), { inputmode: "decimal", "aria-label": "To, in percent" }, changed);
    describe();
    return [make("div", { class: "hy-row hy-group-part" },
      make("div", { class: "hy-field" }, key),
      make("span", { class: "hy-caption" }, "from"), make("div", { class: "hy-field hy-narrow" }, from),
      make("span", { class: "hy-caption" }, "to"), make("div", { class: "hy-field hy-narrow" }, to),
      make("span", { class: "hy-muted" }, "%")), note];
  },
});

/** The link to the page of a tester, once there is an id. */
function pageOf(user) {
  return user.trim() ? linkToUser(user, "Show", { "aria-label": `Show the page of ${user}` }) : "";
}

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
      const put = (entry) => rows.map((row, index) => (index === at ? entry : row));
      const typed = () => fromLine(id.value);
      const id = textInput(toInput(user), { placeholder: "user ID", "aria-label": "User ID" }, () => {
        rows[at] = [typed(), rows[at][1]];
        save(Object.fromEntries(rows));
        page.replaceChildren(pageOf(typed()));
      });
      const page = make("span", { class: "hy-tester-page" }, pageOf(user));
      const sees = choice(keys, variant, { "aria-label": "Variant" }, () => change(put([typed(), sees.value])));
      return make("div", { class: "hy-row hy-tester" },
        make("div", { class: "hy-field" }, id), make("span", { class: "hy-caption" }, "sees"),
        make("div", { class: "hy-field" }, sees), page,
        iconButton("close", `Remove ${user || "this user"}`, () => change(rows.filter((_, index) => index !== at))));
    });
    return [...cards, make("div", {}, addButton("Add a tester", () => change([...rows, ["", keys[0]?.[0] ?? ""]])))];
  },
});
