// Turns a textarea with a JSON array into a list of cards that can be added, removed and moved. Every edit writes the
// array back into the textarea, which the form sends. Without this script, or for a text that the cards cannot show,
// users edit the textarea itself.

import { dragBy } from "./dragging.js";
import { iconButton, make } from "./elements.js";
import { whenRestored } from "./restored.js";

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

const CONTROLS = "select, input, textarea";

function capitalised(text) {
  return text[0].toUpperCase() + text.slice(1);
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
 * `replace(other)` for items that are not objects. Without `isOrdered`, items cannot be moved. With `isCopied`, they can be
 * duplicated. Items for which `isFixed(item, at, items)` holds keep their positions, before all others; their cards get
 * `isPinned`. The cards are drawn again when an element that `watched` selects changes.
 */
export function listEditor({ name, noun, blank, card, empty, isOrdered = true, isCopied = false, isFixed = () => false, watched = null }) {
  for (const textarea of document.querySelectorAll(`textarea[data-editor="${name}"]`)) mount(textarea);

  function mount(textarea) {
    let entries = [];
    let isRaw = false;
    const cards = make("div", { class: "hy-editor-cards" });
    const note = make("p", { class: "hy-note", hidden: true });
    const said = make("p", { class: "hy-unseen", role: "status" });
    const add = make("button", { type: "button", class: "hy-button", onclick: () => {
      change([...entries, makeEntry(blank())]);
      focusOn(entries.length - 1, CONTROLS);
    } }, `Add ${noun}`);
    const toggle = make("button", { type: "button", class: "hy-button", onclick: () => (isRaw ? showCards() : showText()) });
    const editor = make("div", { class: "hy-editor", "data-editor-of": name }, cards, note, said, make("div", { class: "hy-editor-bar" }, add, toggle));
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

    /** Put the focus on the first of these controls of a card that can have it. Drawing the cards again has lost it. */
    function focusOn(at, ...selectors) {
      const found = selectors.map((selector) => cards.children[at]?.querySelector(selector)).find((control) => control && !control.disabled);
      (found ?? add).focus();
    }

    /** Move an item, and keep the focus on its button, as far as it can still be pressed. */
    function move(entry, to, button) {
      const others = entries.filter((other) => other !== entry);
      change([...others.slice(0, to), entry, ...others.slice(to)]);
      if (button) focusOn(to, `[data-does=${button}]`, "[data-does=up]", "[data-does=down]");
      said.textContent = `The ${noun} is now ${noun} ${to + 1} of ${entries.length}.`;
    }

    function duplicate(entry, at) {
      change([...entries.slice(0, at + 1), makeEntry(structuredClone(entry.item)), ...entries.slice(at + 1)]);
      focusOn(at + 1, CONTROLS);
      said.textContent = `${capitalised(noun)} ${at + 2} is a copy of ${noun} ${at + 1}.`;
    }

    function remove(entry, at) {
      change(entries.filter((other) => other !== entry));
      focusOn(Math.min(at, entries.length - 1), "[data-does=remove]");
      said.textContent = `${capitalised(noun)} ${at + 1} is removed. ${entries.length} left.`;
    }

    function countFixed() {
      const items = entries.map(({ item }) => item);
      return items.filter((item, at) => isFixed(item, at, items)).length;
    }

    /** Make the handle by which a card is dragged, also by touch. A line shows where it would land. */
    function makeHandle(entry) {
      const handle = make("span", { class: "hy-grip material-symbols-outlined", "aria-hidden": "true", title: `Drag to move this ${noun}` }, "drag_indicator");
      let place = null;
      const over = (y) => {
        place = placeOf(y);
        showPlace(place);
      };
      const end = (isDropped) => {
        const [from, chosen] = [entries.indexOf(entry), isDropped ? place : null];
        place = null;
        showPlace(null);
        if (chosen === null) return;
        const to = chosen > from ? chosen - 1 : chosen;
        if (to !== from) move(entry, to);
      };
      dragBy(handle, { list: cards, over, end });
      return handle;
    }

    /** Return before which card a pointer at `y` is: its position among all cards. */
    function placeOf(y) {
      const at = [...cards.children].findIndex((card) => {
        const { top, height } = card.getBoundingClientRect();
        return y < top + height / 2;
      });
      return Math.max(at < 0 ? entries.length : at, countFixed());
    }

    function showPlace(place) {
      [...cards.children].forEach((card, at) => {
        card.classList.toggle("hy-drop-before", at === place);
        card.classList.toggle("hy-drop-after", place === entries.length && at === entries.length - 1);
      });
    }

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
      const isFirst = at === 0 || isFixed(entries[at - 1].item, at - 1, items);
      const tool = (icon, does, label, onclick, disabled) => {
        const button = iconButton(icon, label, onclick, disabled);
        button.dataset.does = does;
        return button;
      };
      const element = make("section", { class: "hy-editor-card", "aria-label": `${noun} ${at + 1}` },
        make("header", {},
          isOrdered && !isPinned && entries.length > 1 ? makeHandle(entry) : null,
          isOrdered ? make("span", { class: "hy-number-badge" }, String(at + 1)) : null,
          make("div", { class: "hy-grow" }, ...head),
          ...(isOrdered && !isPinned ? [
            tool("arrow_upward", "up", `Move ${noun} ${at + 1} up`, () => move(entry, at - 1, "up"), isFirst),
            tool("arrow_downward", "down", `Move ${noun} ${at + 1} down`, () => move(entry, at + 1, "down"), at === entries.length - 1),
          ] : []),
          isCopied && !isPinned ? tool("content_copy", "copy", `Duplicate ${noun} ${at + 1}`, () => duplicate(entry, at)) : null,
          isPinned ? null : tool("delete", "remove", `Remove ${noun} ${at + 1}`, () => remove(entry, at))),
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
    whenRestored(() => {
      showCards(errors);
      textarea.dispatchEvent(new Event("change", { bubbles: true }));
    });
    if (watched) {
      for (const element of document.querySelectorAll(watched)) element.addEventListener("change", () => isRaw || draw());
    }
  }
}
