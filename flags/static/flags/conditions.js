// The rows that edit conditions, in rules, segments and the audience of experiments.
import { addButton, choice, field, iconButton, make, textInput, toggleButton } from "../config/elements.js";
import { lineOfUsers } from "../config/user_pages.js";
import { convertValue, knowsCase, OPERATORS, valueFields, valueOf } from "./condition_values.js";
import { suggestNames } from "./seen_attributes.js";

const COMPARING = ["equals", "notEquals", "in", "notIn"];

export function blankCondition() {
  return { attribute: "", operator: "equals", value: "" };
}

/** Whether a row can show the value, which may be any JSON. */
export function isCondition(value) {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}

/** Make the rows of all conditions of a rule, with the button that adds one. */
export function conditionRows(rule, caption, tools) {
  const conditions = rule.conditions ?? [];
  const remove = (condition) => {
    rule.conditions = rule.conditions.filter((other) => other !== condition);
    if (!rule.conditions.length && rule.type !== "attribute") delete rule.conditions;
    tools.redraw();
  };
  const add = () => {
    rule.conditions = [...conditions, blankCondition()];
    tools.redraw();
  };
  return make("div", { class: "hy-editor-cards", "data-path": ".conditions" },
    conditions.length ? make("span", { class: "hy-caption" }, caption) : null,
    ...conditions.map((condition, at) => make("div", { class: "hy-row hy-condition", "data-path": `.conditions[${at}]` },
      ...conditionFields(condition, `.conditions[${at}]`, tools),
      iconButton("close", "Remove this condition", () => remove(condition)))),
    addButton(conditions.length ? "and another condition" : "Add a condition", add));
}

/** Make the fields of a condition; `path` is its path in the item. */
export function conditionFields(condition, path, given) {
  const { line, show } = lineOfUsers();
  const showUsers = () => show(usersOf(condition));
  const tools = { ...given, save: () => { given.save(); showUsers(); } };
  showUsers();
  return [
    valueOf(condition.operator) === "segment" ? make("span", { class: "hy-whole-user" }, "the user") : attributeField(condition, path, tools),
    field(`${path}.operator`, "Operator", operatorChoice(condition, tools)),
    ...valueFields(condition, path, tools),
    toggles(condition, path, tools),
    line,
  ];
}

/** The users whom a condition names: its value is an id, or a list of ids. */
function usersOf({ attribute, operator, value }) {
  const isNaming = attribute === "userId" && COMPARING.includes(operator);
  return isNaming ? [value].flat().filter((id) => typeof id === "string") : [];
}

function attributeField(condition, path, { save }) {
  const input = textInput(condition.attribute ?? "", { placeholder: "attribute, such as plan", "aria-label": "Attribute" }, () => {
    condition.attribute = input.value;
    save();
  });
  suggestNames(input);
  return field(`${path}.attribute`, "Attribute", input);
}

function operatorChoice(condition, { redraw }) {
  const select = choice(OPERATORS, condition.operator, { "aria-label": "Operator" }, () => {
    const value = convertValue(select.value, condition.value);
    condition.operator = select.value;
    if (value === undefined) delete condition.value;
    else condition.value = value;
    if (valueOf(select.value) === "segment") delete condition.attribute;
    else condition.attribute ??= "";
    if (!knowsCase(select.value)) delete condition.ignoreCase;
    redraw();
  });
  return select;
}

/** Make the buttons that negate a condition or ignore case. They are small, since few conditions need them. */
function toggles(condition, path, { save }) {
  const toggle = (name, text, label) => {
    const button = toggleButton(text, label, condition[name] === true, (isOn) => {
      if (isOn) condition[name] = true;
      else delete condition[name];
      save();
    });
    return make("span", { "data-path": `${path}.${name}` }, button);
  };
  const ignoresCase = knowsCase(condition.operator) || condition.ignoreCase !== undefined;
  return make("div", { class: "hy-toggles" },
    toggle("negate", "not", "Negate: match users who do not meet this condition"),
    ignoresCase ? toggle("ignoreCase", "aA", "Ignore upper and lower case") : null);
}
