// Turns a textarea with a JSON array into a list of cards that can be added, removed and moved. The textarea stays what
// is sent: every edit writes the array back into it, and what is not edited stays as it was. Without this script, or
// where the text is no array that the cards can hold, the textarea itself is edited.

import { iconButton, make } from "./elements.js";

export { choice, field, iconButton, make, numberOrText, textInput } from "./elements.js";

const strings = /"(?:[^"\\]|\\.)*"/g;
// Digits that a JavaScript number would not keep: such a text is safe only as text.
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
  const places = [...card.querySelectorAll("[data-path]")].sort((a, b) => b.dataset.path.length - a.dataset.path.length);
  for (const { path, message } of errors) {
    const place = places.find((each) => path.startsWith(each.dataset.path)) ?? card.querySelector(".hy-editor-body") ?? card;
    place.classList.add("hy-wrong");
    for (let folded = place.closest("details"); folded && card.contains(folded); folded = folded.parentElement.closest("details")) folded.open = true;
    place.append(make("em", { class: "hy-error", role: "alert" }, message));
  }
}

/**
 * Enhance every textarea with `data-editor="<name>"`.
 *
 * `blank()` makes a new item, `card(item, { save, redraw, replace })` returns the elements that edit one: `head` in its
 * bar and `body` below. `save()` after an edit in place, `redraw()` when the card must look different, `replace(other)`
 * for items that are no objects. The order of items that are not `isOrdered` says nothing. Items that are
 * `isFixed(item, at)` stay where they are, and no other comes before them. The cards are drawn again when one of the
 * elements that `watched` selects changes.
 */
export function listEditor({ name, noun, blank, card, empty, isOrdered = true, isFixed = () => false, watched = null }) {
  for (const textarea of document.querySelectorAll(`textarea[data-editor="${name}"]`)) mount(textarea);

  function mount(textarea) {
    let entries = [];
    let isRaw = false;
    const cards = make("div", { class: "hy-editor-cards" });
    const note = make("p", { class: "hy-note", hidden: true });
    const add = make("button", { type: "button", class: "hy-button", onclick: () => change([...entries, entry(blank())]) }, `Add ${noun}`);
    const toggle = make("button", { type: "button", class: "hy-button", onclick: () => (isRaw ? showCards() : showText()) });
    const editor = make("div", { class: "hy-editor", "data-editor-of": name }, cards, note, make("div", { class: "hy-editor-bar" }, add, toggle));
    textarea.before(editor);
    editor.insertBefore(textarea, note);

    const entry = (item, errors = []) => ({ item, errors });
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

    function drawCard(each, at) {
      const redraw = () => {
        each.errors = [];
        save();
        draw();
      };
      const replace = (item) => {
        each.item = item;
        save();
      };
      const { head, body } = card(each.item, { save, redraw, replace, at });
      const moved = (to) => {
        const others = entries.filter((other) => other !== each);
        change([...others.slice(0, to), each, ...others.slice(to)]);
      };
      const isHere = isFixed(each.item, at);
      const isFirst = at === 0 || isFixed(entries[at - 1].item, at - 1);
      const element = make("section", { class: "hy-editor-card", "aria-label": `${noun} ${at + 1}` },
        make("header", {}, isOrdered ? make("span", { class: "hy-number-badge" }, String(at + 1)) : null, make("div", { class: "hy-grow" }, ...head),
          ...(isOrdered && !isHere ? [
            iconButton("arrow_upward", `Move ${noun} ${at + 1} up`, () => moved(at - 1), isFirst),
            iconButton("arrow_downward", `Move ${noun} ${at + 1} down`, () => moved(at + 1), at === entries.length - 1),
          ] : []),
          isHere ? null : iconButton("delete", `Remove ${noun} ${at + 1}`, () => change(entries.filter((other) => other !== each)))),
        body.length ? make("div", { class: "hy-editor-body" }, ...body) : null);
      showErrors(element, each.errors);
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
        note.textContent = "This text can only be edited as JSON: it is no array, or holds numbers too long for the cards.";
        note.hidden = false;
        return;
      }
      entries = items.map((item, at) => entry(item, errors.get(at)));
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
