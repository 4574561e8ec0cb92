// Keeps results up to date. Only parts that differ are replaced; open parts stay open, and the focus and the scroll position stay.
const MILLISECONDS_BETWEEN_LOOKS = 30_000;
const FOCUSABLE = "a[href], button, summary, input, select";

const here = document.getElementById("hy-live-results");
let position = "";
let timer = null;

function partsOf(page) {
  return [...page.querySelectorAll("section.hy-results")];
}

function textOf(part) {
  const copy = part.cloneNode(true);
  for (const added of copy.querySelectorAll(".hy-local")) added.remove();
  return copy.textContent.replace(/\s+/g, " ").trim();
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
  const anchor = old.find((part) => part.getBoundingClientRect().bottom > 0);
  const top = anchor?.getBoundingClientRect().top;
  old.forEach((part, index) => {
    if (textOf(part) !== textOf(fresh[index])) replace(part, fresh[index]);
  });
  if (anchor) window.scrollBy(0, anchor.getBoundingClientRect().top - top);
}

async function look() {
  const response = await fetch(`${here.dataset.address}?${new URLSearchParams({ since: position })}`);
  if (!response.ok || response.redirected) return;
  const answer = await response.json();
  if (answer.hasChanged) {
    const page = await fetch(location.href);
    if (!page.ok || page.redirected) return;
    show(new DOMParser().parseFromString(await page.text(), "text/html"));
  }
  position = answer.position;
}

async function run() {
  timer = null;
  if (document.hidden) return;
  timer = -1; // a look is under way
  try {
    await look();
  } catch {
    // The next look may have an answer.
  }
  timer = setTimeout(run, MILLISECONDS_BETWEEN_LOOKS);
}

if (here) {
  document.addEventListener("visibilitychange", () => {
    if (timer === null) run();
  });
  position = here.dataset.position;
  timer = setTimeout(run, MILLISECONDS_BETWEEN_LOOKS);
}
