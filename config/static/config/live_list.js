// Keeps a list up to date. Only cells that differ are replaced, so the focus, ticked boxes and the scroll position stay.
import { fetchAnswer, fetchPage, keepInPlace, repeat, withoutAdded } from "./refreshing.js";

const MILLISECONDS_BETWEEN_LOOKS = 5000;
// A change has the time at which its request began, and is in a page only once it is committed.
const SECONDS_OF_A_WRITE = 10;
const FOCUSABLE = "a[href], button, input:not([type=hidden]), select, summary";

const here = document.getElementById("hy-live");
let revision = null;
let changesAt = momentOf(document);

/** When a page reads differently although nobody changes anything, such as by a schedule, in whole seconds since 1970. */
function momentOf(page) {
  return Number(page.getElementById("hy-live")?.dataset.changesAt || Infinity) + 1;
}

/** What a cell says and leads to. What scripts have added is left out. */
function contentOf(cell) {
  const copy = withoutAdded(cell, "input[type=hidden]");
  const links = [...copy.querySelectorAll("a[href], [aria-checked], button")].map((element) => `${element.getAttribute("href")} ${element.getAttribute("aria-checked")} ${element.getAttribute("aria-label")}`);
  return [copy.textContent.replace(/\s+/g, " ").trim(), ...links].join("\n");
}

/** The rows of a page by what they are about: the address of the object, or the text of the first cell. */
function rowsOf(page) {
  const rows = [...page.querySelectorAll("#result_list .data-row")];
  return new Map(rows.map((row) => [row.querySelector("th a[href]")?.getAttribute("href") ?? contentOf(row.cells[0]), row.closest("tbody")]));
}

/** The names of the columns of a page. Flags have one for each environment. */
function columnsOf(page) {
  return [...page.querySelectorAll("#result_list thead .text")].map((header) => header.textContent.trim()).join("\n");
}

function update(old, fresh) {
  const cells = [...fresh.querySelector(".data-row").cells];
  [...old.querySelector(".data-row").cells].forEach((cell, index) => {
    const other = cells[index];
    if (!other || cell.matches(".action-checkbox") || contentOf(cell) === contentOf(other)) return;
    const at = [...cell.querySelectorAll(FOCUSABLE)].indexOf(document.activeElement);
    cell.replaceWith(other);
    if (at >= 0) other.querySelectorAll(FOCUSABLE)[at]?.focus({ preventScroll: true });
  });
}

/** Make the rows those of another page. The first row that is in view stays where it is, unless it is gone. */
export function showList(page) {
  const table = document.getElementById("result_list");
  const [old, fresh] = [rowsOf(document), rowsOf(page)];
  if (!table || !old.size || !fresh.size || columnsOf(document) !== columnsOf(page)) {
    here.hidden = contentOf(document.body) === contentOf(page.body);
    return;
  }
  const kept = [...old].filter(([key]) => fresh.has(key)).map(([, row]) => row);
  const isFocusedRowGone = [...old].some(([key, row]) => !fresh.has(key) && row.contains(document.activeElement));
  keepInPlace(kept, () => arrange(table, old, fresh));
  document.dispatchEvent(new Event("hy-list"));
  here.hidden = !isFocusedRowGone;
}

/** Put the rows of another page in its order, those that are known as they are. */
function arrange(table, old, fresh) {
  for (const [key, row] of old) if (!fresh.has(key) && !row.contains(document.activeElement)) row.remove();
  let before = null;
  for (const [key, row] of fresh) {
    const known = old.get(key);
    if (known) update(known, row);
    const shown = known ?? document.importNode(row, true);
    const next = before ? before.nextElementSibling : table.querySelector("tbody");
    // A row that is moved loses the focus, so others are moved around it.
    if (shown !== next) {
      if (known && known.contains(document.activeElement)) while (shown.previousElementSibling !== before && shown.previousElementSibling?.matches("tbody")) shown.after(shown.previousElementSibling);
      else if (before) before.after(shown);
      else if (next) next.before(shown);
      else table.append(shown);
    }
    before = shown;
  }
}

async function look() {
  const newest = await fetchAnswer(here.dataset.address);
  if (newest === null) return;
  const isNew = revision === null ? newest.at >= Number(here.dataset.rendered) - SECONDS_OF_A_WRITE : newest.revision !== revision;
  const page = isNew || newest.now >= changesAt ? await fetchPage() : null;
  if (page) {
    showList(page);
    changesAt = momentOf(page);
  }
  if (!isNew || page) revision = newest.revision;
}

if (here) repeat(look, MILLISECONDS_BETWEEN_LOOKS).start(MILLISECONDS_BETWEEN_LOOKS);
