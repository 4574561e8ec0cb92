// The editor of a flag's rules: a card for each rule, over the textarea that holds them as JSON.
import { choice, field, iconButton, listEditor, make, numberOrText, textInput } from "../config/list_editor.js";

const TYPES = [
  ["percentage", "A share of everyone"],
  ["attribute", "Users with certain attributes"],
  ["users", "Certain users"],
];
const OPERATORS = [
  ["equals", "equals"],
  ["notEquals", "does not equal"],
  ["in", "is one of"],
  ["notIn", "is none of"],
  ["contains", "contains"],
  ["startsWith", "starts with"],
  ["endsWith", "ends with"],
  ["greaterThan", "is over"],
  ["greaterThanOrEqual", "is at least"],
  ["lessThan", "is under"],
  ["lessThanOrEqual", "is at most"],
  ["exists", "is known"],
  ["notExists", "is not known"],
];
const LISTS = ["in", "notIn"];
const NUMBERS = ["greaterThan", "greaterThanOrEqual", "lessThan", "lessThanOrEqual"];
const TEXTS = ["contains", "startsWith", "endsWith"];
const WITHOUT_VALUE = ["exists", "notExists"];
const KINDS = [
  ["text", "text"],
  ["number", "number"],
  ["boolean", "yes / no"],
];

listEditor({
  name: "rules",
  noun: "rule",
  empty: "No rules: while the flag is on, it is on for everyone.",
  blank: () => ({ type: "percentage", percentage: 10 }),
  card: (rule, tools) => (isKnown(rule) ? ruleCard(rule, tools) : jsonCard(rule, tools)),
});

function isKnown(rule) {
  return rule !== null && typeof rule === "object" && !Array.isArray(rule) && TYPES.some(([type]) => type === rule.type)
    && (rule.conditions === undefined || (Array.isArray(rule.conditions) && rule.conditions.every((each) => each && typeof each === "object")))
    && (rule.userIds === undefined || (Array.isArray(rule.userIds) && rule.userIds.every((each) => typeof each === "string")));
}

/** A rule that these cards do not know is kept, and edited as what it is. */
function jsonCard(rule, { replace }) {
  const area = make("textarea", { class: "hy-input hy-json", rows: 6, "aria-label": "Rule as JSON", oninput: () => {
    try {
      replace(JSON.parse(area.value));
      area.classList.remove("hy-wrong");
    } catch {
      area.classList.add("hy-wrong");
    }
  } });
  area.value = JSON.stringify(rule, null, 2);
  return { head: [make("strong", {}, String(rule?.type ?? "Rule"))], body: [area] };
}

function ruleCard(rule, tools) {
  const type = choice(TYPES, rule.type, { "aria-label": "Who" }, () => {
    changeType(rule, type.value);
    tools.redraw();
  });
  const body = [];
  if (rule.type === "users") body.push(usersField(rule, tools));
  body.push(percentageField(rule, tools));
  const conditions = (rule.conditions ?? []).map((condition, at) => conditionRow(rule, condition, at, tools));
  const caption = rule.type === "attribute" ? "Users whose" : "Only those whose";
  body.push(make("div", { class: "hy-editor-cards", "data-path": ".conditions" },
    conditions.length ? make("span", { class: "hy-caption" }, caption) : null,
    ...conditions,
    make("button", { type: "button", class: "hy-link-button", onclick: () => {
      rule.conditions = [...(rule.conditions ?? []), { attribute: "", operator: "equals", value: "" }];
      tools.redraw();
    } }, conditions.length ? "and another condition" : "Add a condition")));
  return { head: [field(".type", "Who", type)], body };
}

function changeType(rule, type) {
  rule.type = type;
  delete rule.userIds;
  if (type === "percentage") rule.percentage ??= 100;
  if (type === "users") rule.userIds = [];
  if (type === "attribute" && !rule.conditions?.length) rule.conditions = [{ attribute: "", operator: "equals", value: "" }];
}

function percentageField(rule, { save }) {
  const shown = rule.percentage ?? 100;
  const set = (value) => {
    rule.percentage = value;
    save();
  };
  const number = textInput(String(shown), { inputmode: "decimal", "aria-label": "Percentage" }, () => {
    if (number.value.trim() === "" && rule.type !== "percentage") delete rule.percentage;
    else rule.percentage = numberOrText(number.value);
    range.value = Number(rule.percentage ?? 100) || 0;
    save();
  });
  const range = make("input", { type: "range", min: 0, max: 100, step: 1, "aria-label": "Percentage, roughly", oninput: () => {
    number.value = range.value;
    set(Number(range.value));
  } });
  range.value = Number(shown) || 0;
  const whom = { percentage: "% of everyone", attribute: "% of these users", users: "% of these users" }[rule.type];
  return make("div", { class: "hy-row" }, field(".percentage", "Percentage", number, "hy-narrow"), make("span", { class: "hy-muted" }, whom), range);
}

function usersField(rule, { save }) {
  const area = make("textarea", { class: "hy-input", rows: 4, placeholder: "One user id a line", "aria-label": "User ids, one a line", oninput: () => {
    rule.userIds = area.value.split("\n").filter((line) => line !== "");
    save();
  } });
  area.value = (rule.userIds ?? []).join("\n");
  return field(".userIds", "User ids", area);
}

function conditionRow(rule, condition, at, tools) {
  const path = `.conditions[${at}]`;
  const attribute = textInput(condition.attribute ?? "", { placeholder: "attribute, such as plan", "aria-label": "Attribute" }, () => {
    condition.attribute = attribute.value;
    tools.save();
  });
  const operator = choice(OPERATORS, condition.operator, { "aria-label": "Operator" }, () => {
    condition.value = valueFor(operator.value, condition.value);
    if (condition.value === undefined) delete condition.value;
    condition.operator = operator.value;
    tools.redraw();
  });
  return make("div", { class: "hy-row hy-condition", "data-path": path },
    field(`${path}.attribute`, "Attribute", attribute),
    field(`${path}.operator`, "Operator", operator),
    ...(WITHOUT_VALUE.includes(condition.operator) ? [] : valueFields(condition, path, tools)),
    iconButton("close", "Remove this condition", () => {
      rule.conditions = rule.conditions.filter((other) => other !== condition);
      if (!rule.conditions.length && rule.type !== "attribute") delete rule.conditions;
      tools.redraw();
    }));
}

/** The value carried over to another operator, as far as that takes it. */
function valueFor(operator, value) {
  if (WITHOUT_VALUE.includes(operator)) return undefined;
  if (LISTS.includes(operator)) return Array.isArray(value) ? value : value === undefined || value === "" ? [] : [value];
  const single = Array.isArray(value) ? value[0] : value;
  if (NUMBERS.includes(operator)) return numberOrText(String(single ?? ""));
  if (TEXTS.includes(operator)) return String(single ?? "");
  return single ?? "";
}

function kindOf(value) {
  const values = Array.isArray(value) ? value : [value];
  const kinds = new Set(values.map((each) => ({ string: "text", number: "number", boolean: "boolean" })[typeof each] ?? "json"));
  if (!kinds.size) return "text";
  return kinds.size === 1 ? [...kinds][0] : "json";
}

function read(text, kind) {
  if (kind === "number") return numberOrText(text);
  if (kind === "boolean") return text.trim() === "true";
  return text;
}

function valueFields(condition, path, tools) {
  const isList = LISTS.includes(condition.operator);
  const isMisfit = isList !== Array.isArray(condition.value);
  const kind = isMisfit && condition.value !== undefined ? "json" : kindOf(condition.value ?? "");
  const control = (kind === "json" ? jsonValue : isList ? listValue : singleValue)(condition, kind, tools.save);
  const kinds = NUMBERS.includes(condition.operator) || TEXTS.includes(condition.operator) ? [] : [
    field(`${path}.kind`, "Kind of value", choice(KINDS, kind, { "aria-label": "Kind of value" }, (event) => {
      condition.value = converted(condition.value, event.target.value, isList);
      tools.redraw();
    }), "hy-narrow"),
  ];
  return [field(`${path}.value`, "Value", control), ...kinds];
}

function converted(value, kind, isList) {
  const texts = (Array.isArray(value) ? value : [value]).map((each) => (typeof each === "string" ? each : JSON.stringify(each ?? "")));
  const values = texts.map((text) => (kind === "number" && numberOrText(text) === text ? 0 : read(text, kind)));
  return isList ? values : values[0];
}

function singleValue(condition, kind, save) {
  if (kind === "boolean") {
    const select = choice([["true", "yes"], ["false", "no"]], String(condition.value), { "aria-label": "Value" }, () => {
      condition.value = select.value === "true";
      save();
    });
    return select;
  }
  const input = textInput(String(condition.value ?? ""), { placeholder: "value", "aria-label": "Value", inputmode: kind === "number" ? "decimal" : "text" }, () => {
    const isNumber = kind === "number" || NUMBERS.includes(condition.operator);
    condition.value = read(input.value, isNumber ? "number" : "text");
    save();
  });
  return input;
}

function listValue(condition, kind, save) {
  const area = make("textarea", { class: "hy-input", rows: Math.min(6, Math.max(2, condition.value?.length ?? 0)), placeholder: "One value a line", "aria-label": "Values, one a line", oninput: () => {
    condition.value = area.value.split("\n").filter((line) => line !== "").map((line) => read(line, kind));
    save();
  } });
  area.value = (condition.value ?? []).map(String).join("\n");
  return area;
}

function jsonValue(condition, _kind, save) {
  const input = textInput(JSON.stringify(condition.value), { class: "hy-input hy-json", "aria-label": "Value as JSON" }, () => {
    try {
      condition.value = JSON.parse(input.value);
      input.classList.remove("hy-wrong");
      save();
    } catch {
      input.classList.add("hy-wrong");
    }
  });
  return input;
}
