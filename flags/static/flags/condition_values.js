// The operators of a condition, as the server lists them, and the input for the value that each compares with.
import { choice, field, isObject, jsonControl, keyChoice, known, linesArea, make, numberOrText, textInput } from "../config/elements.js";
import { joinedNoticeOf } from "../config/joined_values.js";
import { fromLine, toInput } from "../config/lines.js";
import { momentInput, toLocal } from "../config/moments.js";
import { suggestValues, valueButtons } from "./seen_attributes.js";

/** Groups of `[operator, words, kind of value, whether case matters]`, as a select shows them. */
export const OPERATORS = known("hy-operators", []);

const operators = new Map(OPERATORS.flatMap(([, group]) => group.map(([name, , value, hasCase]) => [name, { value, hasCase }])));

/** The kind of value of an operator: none, list, networks, text, number, moment, version, segment, or any single value. */
export function valueOf(operator) {
  return operators.get(operator)?.value ?? "any";
}

/** Whether case can change the result of an operator. */
export function knowsCase(operator) {
  return operators.get(operator)?.hasCase ?? false;
}

const KINDS = [
  ["text", "text"],
  ["number", "number"],
  ["boolean", "yes / no"],
];
const UNITS = { s: "seconds", m: "minutes", h: "hours", d: "days", w: "weeks" };
/** The kinds of moments: fixed ones, and the sign and the unit of those that are relative to now. */
const MOMENTS = [
  ["fixed", "UTC"],
  ...Object.entries(UNITS).map(([unit, words]) => [`-${unit}`, `${words} ago`]).reverse(),
  ...Object.entries(UNITS).map(([unit, words]) => [`+${unit}`, `${words} from now`]).reverse(),
];
const RELATIVE = /^([+-])(\d{1,5})([smhdw])$/;
const PLACEHOLDERS = { version: "such as 2.1.0", text: "text", number: "number" };

/** Convert a value for another operator, as far as possible. */
export function convertValue(operator, value) {
  const takes = valueOf(operator);
  const single = Array.isArray(value) ? value[0] : value;
  const text = isObject(single) ? "" : String(single ?? "");
  if (takes === "none") return undefined;
  if (takes === "list") return Array.isArray(value) ? value : text === "" ? [] : [value];
  if (takes === "networks") return Array.isArray(value) ? value.map(String) : text === "" ? [] : [text];
  if (takes === "number") return numberOrText(text);
  if (takes === "moment") return /^[+-]\d/.test(text) || (text && toLocal(text)) ? text : "";
  if (takes === "segment") return "";
  return takes === "any" ? (single ?? "") : text;
}

/** Make the fields of a value, which follow the operator. */
export function valueFields(condition, path, tools) {
  const takes = valueOf(condition.operator);
  const set = (value) => {
    condition.value = value;
    tools.save();
  };
  if (takes === "none") return [];
  const kind = kindOf(condition.value ?? (takes === "list" ? [] : ""));
  const isMisfit = kind === "json" || (Array.isArray(condition.value) && takes !== "list" && takes !== "networks");
  if (isMisfit) return [field(`${path}.value`, "Value", jsonControl("input", condition.value, { "aria-label": "Value as JSON" }, set))];
  const control = (CONTROLS[takes] ?? textValue)(condition.value, set, kind, takes);
  if (control.type === "text" && takes !== "moment") suggestValues(control, () => condition.attribute);
  return [field(`${path}.value`, "Value", control), ...belowLines(control, condition), ...kindField(condition, takes, kind, path, tools)];
}

/** Make what stands below the textarea of a list, with the width of the row. */
function belowLines(control, condition) {
  if (control.type !== "textarea") return [];
  const buttons = valueOf(condition.operator) === "list" ? valueButtons(control, () => condition.attribute) : null;
  return [make("div", { class: "hy-below" }, joinedNoticeOf(control).notice, buttons)];
}

const CONTROLS = {
  any: (value, set, kind, takes) => (kind === "boolean" ? yesOrNo(value, set) : textValue(value, set, kind, takes)),
  list: (value, set, kind) => lines(Array.isArray(value) ? value : [], (texts) => set(texts.map((text) => read(text, kind)))),
  networks: (value, set) => lines([value ?? []].flat(), set, "10.0.0.0/8, one a line"),
  number: (value, set) => textValue(value, set, "number", "number"),
  moment: (value, set) => (isRelative(value) ? distance(value, set) : momentInput(value, { "aria-label": "Value" }, set)),
  segment: (value, set) => keyChoice(known("hy-segments", []), value, { "aria-label": "Segment", placeholder: "choose a segment" }, set),
};

function textValue(value, set, kind, takes) {
  const attributes = { placeholder: PLACEHOLDERS[takes] ?? (takes === "any" ? "value" : takes), "aria-label": "Value", inputmode: kind === "number" ? "decimal" : "text" };
  const input = textInput(toInput(String(value ?? "")), attributes, () => set(read(fromLine(input.value), kind)));
  return input;
}

/** The number of a relative time, whose unit is chosen beside it. A text such as `-7d` may be typed as a whole, too. */
function distance(value, set) {
  const [, sign, number, unit] = partsOf(value);
  const input = textInput(number ?? value, { "aria-label": "Value", inputmode: "numeric" }, () => {
    const text = input.value.trim();
    set(!unit || RELATIVE.test(text) ? text : `${sign}${text}${unit}`);
  });
  return input;
}

function yesOrNo(value, set) {
  const select = choice([["true", "yes"], ["false", "no"]], String(value), { "aria-label": "Value" }, () => set(select.value === "true"));
  return select;
}

function lines(values, set, placeholder = "One value a line") {
  const rows = Math.min(6, Math.max(2, values.length));
  return linesArea(values, { rows, placeholder, "aria-label": "Values, one a line" }, set);
}

/** Make the choice between kinds of values, if the operator takes several. */
function kindField(condition, takes, kind, path, tools) {
  const changes = {
    any: [KINDS, kind, (to) => converted([condition.value], to)[0]],
    list: [KINDS, kind, (to) => converted(condition.value ?? [], to)],
    moment: [MOMENTS, kindOfMoment(condition.value), (to) => movedTo(condition.value, to)],
  }[takes];
  if (!changes) return [];
  const [kinds, chosen, convert] = changes;
  const select = choice(kinds, chosen, { "aria-label": "Kind of value" }, () => {
    condition.value = convert(select.value);
    tools.redraw();
  });
  return [field(`${path}.kind`, "Kind of value", select, takes === "moment" && chosen !== "fixed" ? "" : "hy-narrow")];
}

/** The text of a relative time with its sign, number and unit; empty for any other value. */
function partsOf(value) {
  return String(value ?? "").match(RELATIVE) ?? [];
}

function kindOfMoment(value) {
  const [, sign, , unit] = partsOf(value);
  return unit ? `${sign}${unit}` : isRelative(value) ? "relative" : "fixed";
}

/** The value for another kind of moment, with the number that it has. */
function movedTo(value, kind) {
  const [, , number] = partsOf(value);
  return kind === "fixed" ? "" : `${kind[0]}${number ?? 7}${kind[1]}`;
}

function isRelative(value) {
  return /^[+-]/.test(value ?? "");
}

function kindOf(value) {
  const kinds = new Set([value].flat().map((item) => ({ string: "text", number: "number", boolean: "boolean" })[typeof item] ?? "json"));
  if (!kinds.size) return "text";
  return kinds.size === 1 ? [...kinds][0] : "json";
}

function read(text, kind) {
  if (kind === "number") return numberOrText(text);
  if (kind === "boolean") return text.trim() === "true";
  return text;
}

function converted(values, kind) {
  const texts = values.map((item) => (typeof item === "string" ? item : JSON.stringify(item ?? "")));
  return texts.map((text) => (kind === "number" && numberOrText(text) === text ? 0 : read(text, kind)));
}
