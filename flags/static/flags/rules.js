// The editor of a flag's rules: a card for each rule, over the textarea that holds them as JSON.
import { choice, field, jsonControl, keyChoice, known, labelled, linesArea, make, percentOrText, textInput } from "../config/elements.js";
import { joinedNoticeOf } from "../config/joined_values.js";
import { listEditor } from "../config/list_editor.js";
import { lineOfUsers } from "../config/user_pages.js";
import { blankCondition, conditionRows, isCondition } from "./conditions.js";
import { moreParts } from "./rule_parts.js";
import { servesFields } from "./serving.js";
import { VARIANTS } from "./variant_keys.js";

const TYPES = [
  ["percentage", "A share of everyone"],
  ["attribute", "Users with certain attributes"],
  ["segment", "Users of a segment"],
  ["users", "Certain users"],
];
const SHARE_OF = { percentage: "% of everyone", attribute: "% of these users", segment: "% of these users", users: "% of these users" };

/** The share of everyone that a new rule has, so that it does not reach all users by mistake. */
const DEFAULT_SHARE = 10;
/** The new rules whose percentage nobody has typed yet. It follows their kind. */
const untyped = new WeakSet();

const isOfExperiment = (rule) => rule?.type === "experiment" && Array.isArray(rule.variants);

listEditor({
  name: "rules",
  noun: "rule",
  empty: "No rules: while the flag is on, it is on for everyone.",
  watched: VARIANTS,
  isCopied: true,
  blank: () => {
    const rule = { type: "percentage", percentage: DEFAULT_SHARE };
    untyped.add(rule);
    return rule;
  },
  isFixed: (_, at, rules) => at <= rules.findIndex(isOfExperiment),
  card: (rule, tools) => (isOfExperiment(rule) ? experimentCard(rule) : isKnown(rule) ? ruleCard(rule, tools) : jsonCard(rule, tools)),
});

/** Whether the cards can show every part of the rule. */
function isKnown(rule) {
  const isListOf = (values, holds) => values === undefined || (Array.isArray(values) && values.every(holds));
  return isCondition(rule) && TYPES.some(([type]) => type === rule.type)
    && isListOf(rule.conditions, isCondition) && isListOf(rule.ramp, isCondition) && isListOf(rule.split, isCondition)
    && isListOf(rule.userIds, (id) => typeof id === "string");
}

/** Make the card of a rule of unknown form, which is edited as JSON. */
function jsonCard(rule, { replace }) {
  const area = jsonControl("textarea", rule, { rows: 6, "aria-label": "Rule as JSON" }, replace);
  return { head: [make("strong", {}, String(rule?.type ?? "Rule"))], body: [area] };
}

/** Make the card of a rule. One that comes before the rule of an experiment is only shown. */
function ruleCard(rule, tools) {
  const { head, body } = editableCard(rule, tools);
  if (!tools.isPinned) return { head, body };
  return {
    head: [make("div", { inert: true }, ...head), make("span", { class: "hy-muted" }, " is not edited while the experiment runs")],
    body: [make("div", { inert: true }, ...body)],
  };
}

function editableCard(rule, tools) {
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
      ...(rule.comment ? [make("p", { class: "hy-reason" }, rule.comment)] : []),
      ...(special ? [special(rule, tools)] : []),
      percentageField(rule, tools),
      conditionRows(rule, rule.type === "attribute" ? "Users whose" : "Only those whose", tools),
      ...servesFields(rule, tools),
      moreParts(rule, tools),
      make("p", { class: "hy-audience" }),
    ],
  };
}

function changeType(rule, type) {
  rule.type = type;
  delete rule.userIds;
  delete rule.segment;
  if (untyped.has(rule) && !rule.ramp) {
    // Users who are named are all meant.
    if (type === "percentage") rule.percentage = DEFAULT_SHARE;
    else delete rule.percentage;
  }
  if (type === "percentage" && !rule.ramp) rule.percentage ??= 100;
  if (type === "users") rule.userIds = [];
  if (type === "segment") rule.segment = "";
  if (type === "attribute" && !rule.conditions?.length) rule.conditions = [blankCondition()];
}

function percentageField(rule, { save }) {
  const without = rule.ramp ? 0 : 100;
  const isOptional = rule.type !== "percentage" || rule.ramp;
  const number = textInput(String(rule.percentage ?? without), { inputmode: "decimal", "aria-label": "Percentage" }, () => {
    untyped.delete(rule);
    if (number.value.trim() === "" && isOptional) delete rule.percentage;
    else rule.percentage = percentOrText(number.value);
    range.value = Number(rule.percentage ?? without) || 0;
    save();
  });
  const range = make("input", { type: "range", min: 0, max: 100, step: 1, "aria-label": "Percentage, roughly", oninput: () => {
    untyped.delete(rule);
    number.value = range.value;
    rule.percentage = Number(range.value);
    save();
  } });
  range.value = Number(rule.percentage ?? without) || 0;
  const share = make("span", { class: "hy-muted" }, `${SHARE_OF[rule.type]}${rule.ramp ? ", until the ramp's first step" : ""}`);
  return make("div", { class: "hy-row" }, field(".percentage", "Percentage", number, "hy-narrow"), share, range);
}

function usersField(rule, { save }) {
  const { line, show } = lineOfUsers();
  const area = linesArea(rule.userIds ?? [], { rows: 4, placeholder: "One user id a line", "aria-label": "User ids, one a line" }, (userIds) => {
    rule.userIds = userIds;
    save();
    show(userIds);
  });
  show(rule.userIds ?? []);
  const control = field(".userIds", "User ids", area);
  control.append(joinedNoticeOf(area).notice, line);
  return control;
}

function segmentField(rule, { save }) {
  const control = keyChoice(known("hy-segments", []), rule.segment, { "aria-label": "Segment", placeholder: "choose a segment" }, (key) => {
    rule.segment = key;
    save();
  });
  return labelled(".segment", "In", control);
}

/** Show the rule of an experiment, which only the experiment itself changes. */
function experimentCard(rule) {
  const total = rule.variants.reduce((sum, { weight }) => sum + (Number(weight) || 0), 0);
  return {
    head: [make("strong", {}, `Experiment ${rule.experiment}`), make("span", { class: "hy-muted" }, " decides for its audience while it runs; its rule and those before it are not edited here")],
    body: [
      ...rule.variants.map(({ key, weight, serves }) => make("div", { class: "hy-row hy-split" },
        make("span", { class: "hy-split-variant" }, key),
        make("span", {}, `serves ${{ true: "on", false: "off" }[serves] ?? serves}`),
        make("span", { class: "hy-muted" }, `to ${(100 * weight / total).toFixed(1).replace(".0", "")} %`))),
      ...audience(rule).map((text) => make("p", { class: "hy-note" }, text)),
    ],
  };
}

/** Describe the audience, unless it is all users. */
function audience({ percentage = 100, conditions = [], group, forced = {} }) {
  const forcedUsers = Object.keys(forced).length;
  return [
    percentage < 100 && `${percentage} % of the audience are in the experiment.`,
    conditions.length > 0 && `${conditions.length} condition${conditions.length === 1 ? "" : "s"} narrow${conditions.length === 1 ? "s" : ""} the audience.`,
    group && `It has ${group.from} to ${group.to} % of the group ${group.key}.`,
    forcedUsers > 0 && `For ${forcedUsers} user${forcedUsers === 1 ? "" : "s"} the variant is forced.`,
    (percentage < 100 || conditions.length > 0 || group) && "All others go on to the next rule.",
  ].filter(Boolean);
}
