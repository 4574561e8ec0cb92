// The elements that the editors use.
import { toLine, valuesIn } from "./lines.js";

/** Make an element. Attributes whose names start with `on` are listeners. */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child != null));
  return element;
}

/** A button with only an icon, and a label for screen readers. */
export function iconButton(icon, label, onclick, disabled = false) {
  const symbol = make("span", { class: "material-symbols-outlined", "aria-hidden": "true" }, icon);
  return make("button", { type: "button", class: "hy-icon-button", title: label, "aria-label": label, onclick, disabled }, symbol);
}

/** A button that adds an item. */
export function addButton(text, onclick) {
  return make("button", { type: "button", class: "hy-link-button", onclick }, text);
}

/** A small toggle button with a short text. */
export function toggleButton(text, label, isPressed, onchange) {
  const button = make("button", { type: "button", class: "hy-toggle", title: label, "aria-label": label, "aria-pressed": String(isPressed), onclick: () => {
    const pressed = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", String(pressed));
    onchange(pressed);
  } }, text);
  return button;
}

/** A control with its errors; `path` is its path in the item, such as `.percentage`. */
export function field(path, label, control, extra = "") {
  if (!control.getAttribute("aria-label")) control.setAttribute("aria-label", label);
  return make("div", { class: `hy-field ${extra}`, "data-path": path }, control);
}

/** The same with a visible label. */
export function labelled(path, label, ...controls) {
  return make("div", { class: "hy-labelled" }, make("span", { class: "hy-caption" }, label),
    make("div", { class: "hy-field hy-row", "data-path": path }, ...controls));
}

export function textInput(value, attributes, oninput) {
  return Object.assign(make("input", { type: "text", class: "hy-input", autocomplete: "off", ...attributes, oninput }), { value });
}

/** A textarea with one value per line. */
export function linesArea(values, attributes, oninput) {
  const area = make("textarea", { class: "hy-input", spellcheck: "false", ...attributes, oninput: () => oninput(valuesIn(area)) });
  area.value = values.map((value) => toLine(String(value))).join("\n");
  return area;
}

/** A control for JSON. Invalid JSON is sent as it is, and the server reports the error. */
export function jsonControl(tag, value, attributes, onvalue) {
  const control = make(tag, { class: "hy-input hy-json", spellcheck: "false", ...attributes, oninput: () => {
    try {
      onvalue(JSON.parse(control.value));
      control.classList.remove("hy-wrong");
    } catch {
      onvalue(control.value);
      control.classList.add("hy-wrong");
    }
  } });
  control.value = isObject(value) ? JSON.stringify(value, null, tag === "textarea" ? 2 : 0) : typeof value === "string" ? value : JSON.stringify(value) ?? "";
  return control;
}

/** A select of `[value, text]` pairs, or of groups of pairs as `[name, pairs]`. An unknown chosen value is kept. */
export function choice(options, chosen, attributes, onchange) {
  const values = options.flatMap(([value, text]) => (Array.isArray(text) ? text.map(([inner]) => inner) : [value]));
  const all = values.includes(chosen) ? options : [[chosen, String(chosen ?? "choose")], ...options];
  const option = ([value, text]) => make("option", { value }, text);
  const select = make("select", { class: "hy-input", ...attributes, onchange },
    ...all.map(([value, text]) => (Array.isArray(text) ? make("optgroup", { label: value }, ...text.map(option)) : option([value, text]))));
  select.value = chosen;
  return select;
}

const MOST_OPTIONS = 60;

/** A control to choose one of the existing keys: a select for few keys, a text input with suggestions for many. */
export function keyChoice(keys, chosen, attributes, onchange) {
  if (keys.length <= MOST_OPTIONS) {
    const select = choice([...(chosen ? [] : [["", attributes.placeholder]]), ...keys.map((key) => [key, key])], chosen ?? "", attributes, () => onchange(select.value));
    return select;
  }
  const id = `hy-keys-${document.querySelectorAll("datalist").length}`;
  document.body.append(make("datalist", { id }, ...keys.map((key) => make("option", { value: key }))));
  const input = textInput(chosen ?? "", { ...attributes, list: id }, () => onchange(input.value));
  return input;
}

/**
 * The number, if JavaScript represents it exactly; else the text, for which the server reports an error. Decimals may
 * follow a comma, unless the comma could also be one between thousands, as in 1,234.
 */
export function numberOrText(text) {
  const trimmed = text.trim();
  const plain = /^-?[1-9]\d{0,2},\d{3}$/.test(trimmed) ? trimmed : trimmed.replace(/^(-?\d+),(\d+)$/, "$1.$2");
  return /^-?\d{1,15}(\.\d{1,15})?$/.test(plain) ? Number(plain) : text;
}

/** The same for a percentage up to 100, with or without its sign. It has no thousands, so 12,345 is 12.345. */
export function percentOrText(text) {
  const number = numberOrText(text.trim().replace(/\s*%$/, "").replace(/^(\d+),(\d+)$/, "$1.$2"));
  return typeof number === "number" ? number : text;
}

/** The same for a weight, which people often give in percent. */
export function weightOrText(text) {
  const number = numberOrText(text.trim().replace(/\s*%$/, ""));
  return typeof number === "number" ? number : text;
}

export function isObject(value) {
  return value !== null && typeof value === "object";
}

/** The data that the server put into a `<script type="application/json">` with this id. */
export function known(id, otherwise) {
  const element = document.getElementById(id);
  return element ? JSON.parse(element.textContent) : otherwise;
}
