// The editor of a flag's rules: a card for each rule, over the textarea that holds them as JSON.
import { choice, field, jsonControl, keyChoice, known, labelled, linesArea, make, numberOrText, textInput } from "../config/elements.js";
import { listEditor } from "../config/list_editor.js";
import { blankCondition, conditionRows, isCondition } from "./conditions.js";
import { experimentCard, isOfExperiment } from "./experiment_card.js";
import { moreParts } from "./rule_parts.js";
import { servesFields } from "./serving.js";
import { VARIANTS } from "./variant_keys.js";

const TYPES = [
  ["percentage", "A share of everyone"],
  ["attribute", "Users with certain attributes"],
  ["segment", "Users of a segment"],
  ["users", "Certain users"],
];
const WHOM = { percentage: "% of everyone", attribute: "% of these users", segment: "% of these users", users: "% of these users" };

listEditor({
  name: "rules",
  noun: "rule",
  empty: "No rules: while the flag is on, it is on for everyone.",
  watched: VARIANTS,
  blank: () => ({ type: "percentage", percentage: 10 }),
  isFixed: isOfExperiment,
  card: (rule, tools) => (isOfExperiment(rule) ? experimentCard(rule) : isKnown(rule) ? ruleCard(rule, tools) : jsonCard(rule, tools)),
});

/** Whether these cards can show all of it. */
function isKnown(rule) {
  const isListOf = (values, holds) => values === undefined || (Array.isArray(values) && values.every(holds));
  return isCondition(rule) && TYPES.some(([type]) => type === rule.type)
    && isListOf(rule.conditions, isCondition) && isListOf(rule.ramp, isCondition) && isListOf(rule.split, isCondition)
    && isListOf(rule.userIds, (each) => typeof each === "string");
}

/** A rule that these cards do not know is kept, and edited as what it is. */
function jsonCard(rule, { replace }) {
  const area = jsonControl("textarea", rule, { rows: 6, "aria-label": "Rule as JSON" }, replace);
  return { head: [make("strong", {}, String(rule?.type ?? "Rule"))], body: [area] };
}

function ruleCard(rule, tools) {
  const type = choice(TYPES, rule.type, { "aria-label": "Who" }, () => {
    changeType(rule, type.value);
    tools.redraw();
  });
  const head = make("div", { class: "hy-row hy-rule-head" }, field(".type", "Who", type),
    rule.name ? make("strong", { class: "hy-rule-name" }, rule.name) : null,
    rule.enabled === false ? make("span", { class: "hy-state hy-state-off" }, "off") : null);
  const special = { users: usersField, segment: segmentField }[rule.type];
  return {
    head: [head],
    body: [
      ...(special ? [special(rule, tools)] : []),
      percentageField(rule, tools),
      conditionRows(rule, rule.type === "attribute" ? "Users whose" : "Only those whose", tools),
      ...servesFields(rule, tools),
      moreParts(rule, tools),
    ],
  };
}

function changeType(rule, type) {
  rule.type = type;
  delete rule.userIds;
  delete rule.segment;
  if (type === "percentage" && !rule.ramp) rule.percentage ??= 100;
  if (type === "users") rule.userIds = [];
  if (type === "segment") rule.segment = "";
  if (type === "attribute" && !rule.conditions?.length) rule.conditions = [blankCondition()];
}

function percentageField(rule, { save }) {
  const without = rule.ramp ? 0 : 100;
  const isOptional = rule.type !== "percentage" || rule.ramp;
  const number = textInput(String(rule.percentage ?? without), { inputmode: "decimal", "aria-label": "Percentage" }, () => {
    if (number.value.trim() === "" && isOptional) delete rule.percentage;
    else rule.percentage = numberOrText(number.value);
    range.value = Number(rule.percentage ?? without) || 0;
    save();
  });
  const range = make("input", { type: "range", min: 0, max: 100, step: 1, "aria-label": "Percentage, roughly", oninput: () => {
    number.value = range.value;
    rule.percentage = Number(range.value);
    save();
  } });
  range.value = Number(rule.percentage ?? without) || 0;
  const whom = make("span", { class: "hy-muted" }, `${WHOM[rule.type]}${rule.ramp ? ", until the ramp's first step" : ""}`);
  return make("div", { class: "hy-row" }, field(".percentage", "Percentage", number, "hy-narrow"), whom, range);
}

function usersField(rule, { save }) {
  const area = linesArea(rule.userIds ?? [], { rows: 4, placeholder: "One user id a line", "aria-label": "User ids, one a line" }, (lines) => {
    rule.userIds = lines;
    save();
  });
  return field(".userIds", "User ids", area);
}

function segmentField(rule, { save }) {
  const control = keyChoice(known("hy-segments", []), rule.segment, { "aria-label": "Segment", placeholder: "choose a segment" }, (key) => {
    rule.segment = key;
    save();
  });
  return labelled(".segment", "In", control);
}
