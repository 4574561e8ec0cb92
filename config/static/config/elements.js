// The elements that editors are made of. What they edit is for the editors to know.

/** Make an element: attributes by name, `on...` as listeners, then its children. */
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

/** A button that is only an icon, with a name for those who cannot see it. */
export function iconButton(icon, label, onclick, disabled = false) {
  const symbol = make("span", { class: "material-symbols-outlined", "aria-hidden": "true" }, icon);
  return make("button", { type: "button", class: "hy-icon-button", title: label, "aria-label": label, onclick, disabled }, symbol);
}

/** A button that adds one more of something. */
export function addButton(text, onclick) {
  return make("button", { type: "button", class: "hy-link-button", onclick }, text);
}

/** A small button of a few letters that is pressed or not. */
export function toggleButton(text, label, isPressed, onchange) {
  const button = make("button", { type: "button", class: "hy-toggle", title: label, "aria-label": label, "aria-pressed": String(isPressed), onclick: () => {
    const pressed = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", String(pressed));
    onchange(pressed);
  } }, text);
  return button;
}

/** A labelled control with a place for its errors; `path` is where it stands in the item, such as `.percentage`. */
export function field(path, label, control, extra = "") {
  if (!control.getAttribute("aria-label")) control.setAttribute("aria-label", label);
  return make("div", { class: `hy-field ${extra}`, "data-path": path }, control);
}

/** The same with its label written in front. */
export function labelled(path, label, ...controls) {
  return make("div", { class: "hy-labelled" }, make("span", { class: "hy-caption" }, label),
    make("div", { class: "hy-field hy-row", "data-path": path }, ...controls));
}

export function textInput(value, attributes, oninput) {
  return Object.assign(make("input", { type: "text", class: "hy-input", autocomplete: "off", ...attributes, oninput }), { value });
}

/** A textarea with one entry a line. */
export function linesArea(lines, attributes, oninput) {
  const area = make("textarea", { class: "hy-input", spellcheck: "false", ...attributes, oninput: () => oninput(area.value.split("\n").filter((line) => line !== "")) });
  area.value = lines.map(String).join("\n");
  return area;
}

/** A control for JSON. What does not parse is kept as the text that it is, so that the server says what is wrong. */
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

/** A select of `[value, text]` pairs, or of groups of them as `[name, pairs]`. What is chosen and unknown stays. */
export function choice(options, chosen, attributes, onchange) {
  const known = options.flatMap(([value, text]) => (Array.isArray(text) ? text.map(([each]) => each) : [value]));
  const all = known.includes(chosen) ? options : [[chosen, String(chosen ?? "choose")], ...options];
  const option = ([value, text]) => make("option", { value }, text);
  const select = make("select", { class: "hy-input", ...attributes, onchange },
    ...all.map(([value, text]) => (Array.isArray(text) ? make("optgroup", { label: value }, ...text.map(option)) : option([value, text]))));
  select.value = chosen;
  return select;
}

const FEW = 60;

/** Choose one of the keys that there are: a select while they are few, else a text that suggests them. */
export function keyChoice(keys, chosen, attributes, onchange) {
  if (keys.length <= FEW) {
    const select = choice([...(chosen ? [] : [["", attributes.placeholder]]), ...keys.map((key) => [key, key])], chosen ?? "", attributes, () => onchange(select.value));
    return select;
  }
  const id = `hy-keys-${document.querySelectorAll("datalist").length}`;
  document.body.append(make("datalist", { id }, ...keys.map((key) => make("option", { value: key }))));
  const input = textInput(chosen ?? "", { ...attributes, list: id }, () => onchange(input.value));
  return input;
}

/** A number where the text is one that JavaScript keeps, else the text itself, which the server says something about. */
export function numberOrText(text) {
  const trimmed = text.trim();
  return /^-?\d{1,15}(\.\d{1,15})?$/.test(trimmed) ? Number(trimmed) : text;
}

export function isObject(value) {
  return value !== null && typeof value === "object";
}

/** What the server says that there is, in a `<script type="application/json">` of this id. */
export function known(id, otherwise) {
  const element = document.getElementById(id);
  return element ? JSON.parse(element.textContent) : otherwise;
}
