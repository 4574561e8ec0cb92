// Suggestions for conditions: the attributes that rules read or recent users have, and their usual values. They are asked
// for when somebody first edits a condition.
import { known, make } from "../config/elements.js";

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

function listOf(name, values) {
  if (!lists.has(name)) {
    const list = make("datalist", { id: `hy-seen-values-${lists.size}` }, ...values.map((value) => make("option", { value })));
    document.body.append(list);
    lists.set(name, list);
  }
  return lists.get(name);
}
