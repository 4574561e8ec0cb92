// Suggestions for conditions: the attributes that rules read or recent users have, and their usual values. They are asked
// for when somebody first edits a condition.
import { known, make } from "../config/elements.js";
import { linesIn, toInput, toLine, valuesIn } from "../config/lines.js";

const MAX_BUTTONS = 8;
const address = known("hy-attributes-page", "");
const lists = new Map();
const names = make("datalist", { id: "hy-seen-attributes" });
document.body.append(names);
let pending = null;

function load() {
  pending ??= request();
  return pending;
}

async function request() {
  try {
    const response = address ? await fetch(address) : null;
    if (response?.ok && !response.redirected) {
      const seen = new Map(Object.entries(await response.json()));
      names.replaceChildren(...[...seen.keys()].map((name) => make("option", { value: name })));
      return seen;
    }
  } catch {
    // Without an answer there are no suggestions.
  }
  return new Map();
}

/** Suggest names of attributes in an input. */
export function suggestNames(input) {
  input.setAttribute("list", names.id);
  input.addEventListener("focus", load);
}

/** Suggest the values of an attribute in an input. `nameOf` returns the name of the attribute by then. */
export function suggestValues(input, nameOf) {
  input.addEventListener("focus", async () => {
    const seen = await load();
    const name = nameOf();
    const values = seen.get(name) ?? [];
    if (values.length) input.setAttribute("list", listOf(name, values).id);
    else input.removeAttribute("list");
  });
}

/** Make a line of buttons below a textarea, each of which adds a value of the attribute that it does not have yet. */
export function valueButtons(area, nameOf) {
  const line = make("div", { class: "hy-seen", role: "group", "aria-label": "Values seen lately", hidden: true });
  let row = null;

  async function show() {
    const seen = await load();
    if (!row) {
      row = area.closest(".hy-row");
      row?.addEventListener("input", show); // also of another attribute
    }
    const listed = new Set(valuesIn(area));
    const values = (seen.get(nameOf()) ?? []).filter((value) => !listed.has(value)).slice(0, MAX_BUTTONS);
    line.hidden = !values.length;
    line.replaceChildren("Seen lately:", ...values.map((value, at) => make("button", { type: "button", title: value, "aria-label": `Add ${value}`, onclick: () => add(value, at) }, value)));
  }

  /** Add a value, and leave the focus where the next one is. */
  async function add(value, at) {
    area.value = [...linesIn(area), toLine(value)].join("\n");
    for (const type of ["input", "change"]) area.dispatchEvent(new Event(type, { bubbles: true }));
    await show();
    const buttons = line.querySelectorAll("button");
    (buttons[Math.min(at, buttons.length - 1)] ?? area).focus();
  }

  area.addEventListener("focus", show);
  if (pending) show();
  return line;
}

function listOf(name, values) {
  if (!lists.has(name)) {
    const list = make("datalist", { id: `hy-seen-values-${lists.size}` }, ...values.map((value) => make("option", { value: toInput(value) })));
    document.body.append(list);
    lists.set(name, list);
  }
  return lists.get(name);
}
