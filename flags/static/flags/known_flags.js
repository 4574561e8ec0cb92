// The flags that a form can name, with their variants. The page has all of them if they are few. Otherwise the server
// is asked for those whose key contains what is typed.
import { keyChoice, known, make, textInput } from "../config/elements.js";

const listed = known("hy-flags", null);
const address = known("hy-flag-search", "");
const flags = new Map(Object.entries(listed ?? {}));
const asked = new Map();

/** The keys of the variants of a flag, which are none if it is not known. */
export function variantsOf(key) {
  return flags.get(key) ?? [];
}

/** Ask for flags whose key contains a text, and return their keys. */
function find(text) {
  if (!asked.has(text)) asked.set(text, request(text));
  return asked.get(text);
}

async function request(text) {
  try {
    const response = await fetch(`${address}?${new URLSearchParams({ text })}`);
    if (response.ok) {
      const found = Object.entries(await response.json());
      for (const [key, variants] of found) flags.set(key, variants);
      return found.map(([key]) => key);
    }
  } catch {
    // Without an answer there are no suggestions.
  }
  asked.delete(text);
  return [];
}

/** Call `then` once the variants of a flag are known, unless they are already. */
export async function whenKnown(key, then) {
  if (listed || !key || flags.has(key)) return;
  await find(key);
  if (flags.has(key)) then();
}

let lists = 0;

/**
 * A control to choose a flag: a select for few flags, a text input with suggestions for many. `onchange` gets the key.
 * If the variants of the flag were not known then, it gets the key once more when they are.
 */
export function flagChoice(chosen, attributes, onchange) {
  if (listed) return keyChoice(Object.keys(listed), chosen, attributes, onchange);
  const suggestions = make("datalist", { id: `hy-known-flags-${lists++}` });
  const input = textInput(chosen ?? "", { ...attributes, list: suggestions.id }, async () => {
    const text = input.value;
    const wasKnown = flags.has(text); // from an answer to a part of this text
    onchange(text);
    const keys = await find(text);
    if (input.value !== text) return; // edited in the meantime
    suggestions.replaceChildren(...keys.map((key) => make("option", { value: key })));
    // A second call would undo what was chosen for the flag since the first one.
    if (flags.has(text) && !wasKnown) onchange(text);
  });
  document.body.append(suggestions);
  return input;
}
