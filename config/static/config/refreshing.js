// What pages that keep themselves up to date have in common.

/**
 * Call `look` again and again, from `start` to `stop` and while the page is visible. A look that answers false is the last
 * one. After one that fails, `fail` answers the milliseconds until the next.
 */
export function repeat(look, milliseconds, fail = () => milliseconds) {
  let isOn = false;
  let isUnderWay = false;
  let timer = null;

  async function run() {
    timer = null;
    if (!isOn || document.hidden || isUnderWay) return;
    isUnderWay = true;
    let pause = milliseconds;
    try {
      if ((await look()) === false) isOn = false;
    } catch {
      pause = fail();
    }
    isUnderWay = false;
    if (isOn) timer = setTimeout(run, pause);
  }

  document.addEventListener("visibilitychange", () => {
    if (timer === null) run();
  });
  return {
    start(pause = 0) {
      isOn = true;
      clearTimeout(timer);
      timer = setTimeout(run, pause);
    },
    stop() {
      isOn = false;
      clearTimeout(timer);
      timer = null;
    },
  };
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
