// Turns a textarea with a JSON array into a list of cards that can be added, removed and moved. Every edit writes the
// array back into the textarea, which the form sends. Without this script, or for a text that the cards cannot show,
// users edit the textarea itself.

import { iconButton, make } from "./elements.js";

export { choice, field, iconButton, make, numberOrText, textInput, weightOrText } from "./elements.js";

const strings = /"(?:[^"\\]|\\.)*"/g;
// Numbers that JavaScript does not represent exactly; such a text is only edited as text.
const beyondNumbers = /\d{16}|\d[eE]/;

function parse(text) {
  if (!text.trim()) return [];
  if (beyondNumbers.test(text.replace(strings, '""'))) return null;
  try {
    const items = JSON.parse(text);
    return Array.isArray(items) ? items : null;
  } catch {
    return null;
  }
}

/** Errors as Django lists them under the textarea, `rules[0].percentage: Must be ...`, by item and path in it. */
function takeErrors(textarea, name) {
  const located = new RegExp(`^${name}\\[(\\d+)\\]([\\w.\\[\\]]*): (.*)$`, "s");
  const found = new Map();
  for (const entry of document.querySelectorAll(`#${textarea.id}_error li`)) {
    const match = located.exec(entry.textContent.trim());
    if (!match) continue;
    const errors = found.get(Number(match[1])) ?? [];
    found.set(Number(match[1]), [...errors, { path: match[2], message: match[3] }]);
    entry.hidden = true;
  }
  return found;
}

function showErrors(card, errors) {
  const fields = [...card.querySelectorAll("[data-path]")].sort((a, b) => b.dataset.path.length - a.dataset.path.length);
  for (const { path, message } of errors) {
    const place = fields.find((field) => path.startsWith(field.dataset.path)) ?? card.querySelector(".hy-editor-body") ?? card;
    place.classList.add("hy-wrong");
    for (let folded = place.closest("details"); folded && card.contains(folded); folded = folded.parentElement.closest("details")) folded.open = true;
    place.append(make("em", { class: "hy-error", role: "alert" }, message));
  }
}

/**
 * Enhance every textarea with `data-editor="<name>"`.
 *
 * `blank()` makes a new item. `card(item, { save, redraw, replace })` returns the elements that edit an item: `head` for
 * its bar and `body` below. A card calls `save()` after an edit in place, `redraw()` to be drawn again, and
 * `replace(other)` for items that are not objects. Without `isOrdered`, items cannot be moved. Items for which
 * `isFixed(item, at, items)` holds keep their positions, before all others; their cards get `isPinned`. The cards are drawn again when an element that
 * `watched` selects changes.
 */
export function listEditor({ name, noun, blank, card, empty, isOrdered = true, isFixed = () => false, watched = null }) {
  for (const textarea of document.querySelectorAll(`textarea[data-editor="${name}"]`)) mount(textarea);

  function mount(textarea) {
    let entries = [];
    let isRaw = false;
    const cards = make("div", { class: "hy-editor-cards" });
    const note = make("p", { class: "hy-note", hidden: true });
    const add = make("button", { type: "button", class: "hy-button", onclick: () => change([...entries, makeEntry(blank())]) }, `Add ${noun}`);
    const toggle = make("button", { type: "button", class: "hy-button", onclick: () => (isRaw ? showCards() : showText()) });
    const editor = make("div", { class: "hy-editor", "data-editor-of": name }, cards, note, make("div", { class: "hy-editor-bar" }, add, toggle));
    textarea.before(editor);
    editor.insertBefore(textarea, note);

    const makeEntry = (item, errors = []) => ({ item, errors });
    const save = () => {
      textarea.value = JSON.stringify(entries.map(({ item }) => item), null, 2);
      textarea.dispatchEvent(new Event("change", { bubbles: true }));
    };
    const change = (changed) => {
      entries = changed;
      save();
      draw();
    };

    function draw() {
      cards.replaceChildren(...entries.map(drawCard));
      if (!entries.length) cards.append(make("p", { class: "hy-note" }, empty));
    }

    function drawCard(entry, at) {
      const redraw = () => {
        entry.errors = [];
        save();
        draw();
      };
      const replace = (item) => {
        entry.item = item;
        save();
      };
      const items = entries.map(({ item }) => item);
      const isPinned = isFixed(entry.item, at, items);
      const { head, body } = card(entry.item, { save, redraw, replace, at, isPinned });
      const moved = (to) => {
        const others = entries.filter((other) => other !== entry);
        change([...others.slice(0, to), entry, ...others.slice(to)]);
      };
      const isFirst = at === 0 || isFixed(entries[at - 1].item, at - 1, items);
      const element = make("section", { class: "hy-editor-card", "aria-label": `${noun} ${at + 1}` },
        make("header", {}, isOrdered ? make("span", { class: "hy-number-badge" }, String(at + 1)) : null, make("div", { class: "hy-grow" }, ...head),
          ...(isOrdered && !isPinned ? [
            iconButton("arrow_upward", `Move ${noun} ${at + 1} up`, () => moved(at - 1), isFirst),
            iconButton("arrow_downward", `Move ${noun} ${at + 1} down`, () => moved(at + 1), at === entries.length - 1),
          ] : []),
          isPinned ? null : iconButton("delete", `Remove ${noun} ${at + 1}`, () => change(entries.filter((other) => other !== entry)))),
        body.length ? make("div", { class: "hy-editor-body" }, ...body) : null);
      showErrors(element, entry.errors);
      return element;
    }

    function show(raw) {
      isRaw = raw;
      textarea.hidden = !raw;
      cards.hidden = add.hidden = raw;
      toggle.textContent = raw ? "Edit as cards" : "Edit as JSON";
      note.hidden = true;
    }

    function showText() {
      show(true);
      textarea.focus();
    }

    function showCards(errors = new Map()) {
      const items = parse(textarea.value);
      if (items === null) {
        show(true);
        note.textContent = "This text can only be edited as JSON: it is not an array, or has numbers that are too long for the cards.";
        note.hidden = false;
        return;
      }
      entries = items.map((item, at) => makeEntry(item, errors.get(at)));
      show(false);
      draw();
    }

    const errors = parse(textarea.value) === null ? new Map() : takeErrors(textarea, name);
    showCards(errors);
    if (watched) {
      for (const element of document.querySelectorAll(watched)) element.addEventListener("change", () => isRaw || draw());
    }
  }
}
