// What pages that keep themselves up to date have in common.

/** Call `look` again and again, while the page is visible. A look that fails is followed by the next one. */
export function repeat(look, milliseconds) {
  let isUnderWay = false;
  let timer = setTimeout(run, milliseconds);

  async function run() {
    timer = null;
    if (document.hidden || isUnderWay) return;
    isUnderWay = true;
    try {
      await look();
    } catch {
      // The next look may have an answer.
    }
    isUnderWay = false;
    timer = setTimeout(run, milliseconds);
  }

  document.addEventListener("visibilitychange", () => {
    if (timer === null) run();
  });
}

/** Return this page as the service answers it now, or null if it does not. */
export async function fetchPage() {
  const response = await fetch(location.href, { headers: { accept: "text/html" } });
  if (!response.ok || response.redirected) return null;
  return new DOMParser().parseFromString(await response.text(), "text/html");
}

/** Return what the service answers in JSON at an address, or null if it does not, as after signing out. */
export async function fetchAnswer(address) {
  const response = await fetch(address);
  return response.ok && !response.redirected ? response.json() : null;
}

/** Call `change`, and scroll so that the first of these elements that is in view stays where it is. */
export function keepInPlace(elements, change) {
  const anchor = elements.find((element) => element.getBoundingClientRect().bottom > 0);
  const top = anchor?.getBoundingClientRect().top;
  change();
  if (anchor?.isConnected) window.scrollBy(0, anchor.getBoundingClientRect().top - top);
}

/** Return a copy of an element without the local times and the shares of users that scripts have added, and without `others`. */
export function withoutAdded(element, others = "") {
  const copy = element.cloneNode(true);
  for (const added of copy.querySelectorAll([".hy-local, .hy-share", others].filter(Boolean).join())) added.remove();
  return copy;
}

/** Return the text of an element, without what scripts have added. */
export function textOf(element) {
  return withoutAdded(element).textContent.replace(/\s+/g, " ").trim();
}
