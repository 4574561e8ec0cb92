// Keeps results up to date. Only parts that differ are replaced; open parts stay open, and the focus and the scroll position stay.
import { fetchAnswer, fetchPage, keepInPlace, repeat, textOf } from "../config/refreshing.js";

const MILLISECONDS_BETWEEN_LOOKS = 30_000;
const FOCUSABLE = "a[href], button, summary, input, select";

const here = document.getElementById("hy-live-results");
let position = "";

function partsOf(page) {
  return [...page.querySelectorAll("section.hy-results")];
}

function replace(part, fresh) {
  const opened = [...part.querySelectorAll("details")].map((details) => details.open);
  const focused = [...part.querySelectorAll(FOCUSABLE)].indexOf(document.activeElement);
  part.replaceChildren(...fresh.childNodes);
  [...part.querySelectorAll("details")].forEach((details, index) => { details.open = opened[index] ?? details.open; });
  if (focused >= 0) part.querySelectorAll(FOCUSABLE)[focused]?.focus({ preventScroll: true });
}

function show(page) {
  const [old, fresh] = [partsOf(document), partsOf(page)];
  if (old.length !== fresh.length) {
    here.textContent = "The results have other parts now. Load the page again to see them.";
    here.hidden = false;
    return;
  }
  const update = () => old.forEach((part, index) => {
    if (textOf(part) !== textOf(fresh[index])) replace(part, fresh[index]);
  });
  const place = placeOfFocus(old);
  if (place === null) return keepInPlace(old, update);
  update();
  const now = placeOfFocus(old);
  if (now !== null) window.scrollBy(0, now - place);
}

/** Where the focus is in the window, if it is in one of the parts and in view. A part can be longer than the window. */
function placeOfFocus(parts) {
  const { top, bottom } = document.activeElement.getBoundingClientRect();
  const isInPart = parts.some((part) => part.contains(document.activeElement));
  return isInPart && bottom > 0 && top < window.innerHeight ? top : null;
}

async function look() {
  const answer = await fetchAnswer(`${here.dataset.address}?${new URLSearchParams({ since: position })}`);
  if (answer === null) return;
  if (answer.hasChanged) {
    const page = await fetchPage();
    if (page === null) return;
    show(page);
  }
  position = answer.position;
}

if (here) {
  position = here.dataset.position;
  repeat(look, MILLISECONDS_BETWEEN_LOOKS).start(MILLISECONDS_BETWEEN_LOOKS);
}
