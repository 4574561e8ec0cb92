// The editor of a segment's conditions, over the textarea that holds them as JSON.
import { jsonControl, make } from "../config/elements.js";
import { listEditor } from "../config/list_editor.js";
import { blankCondition, conditionFields, isCondition } from "./conditions.js";

listEditor({
  name: "conditions",
  noun: "condition",
  empty: "No conditions: only the users listed below are in the segment.",
  isOrdered: false,
  blank: blankCondition,
  card: (condition, tools) => {
    if (!isCondition(condition)) return { head: [jsonControl("input", condition, { "aria-label": "Condition as JSON" }, tools.replace)], body: [] };
    return { head: [make("div", { class: "hy-row" }, ...conditionFields(condition, "", tools))], body: [] };
  },
});
