// Dragging by a handle, with a mouse, a pen or a finger.

const EDGE = 56; // pixels
const FASTEST = 1.2; // pixels in a millisecond

/** The part of the window that no bar covers. The style sheet names it for the focus, too. */
function visiblePart() {
  const { scrollPaddingTop, scrollPaddingBottom } = getComputedStyle(document.documentElement);
  return { top: parseFloat(scrollPaddingTop) || 0, bottom: window.innerHeight - (parseFloat(scrollPaddingBottom) || 0) };
}

/** How fast the page scrolls while the pointer is at `y`: faster nearer to an edge, and no further than the list goes. */
function speedAt(y, list) {
  const { top, bottom } = visiblePart();
  const { top: first, bottom: last } = list.getBoundingClientRect();
  const share = (distance) => Math.min(Math.max(distance / EDGE, 0), 1);
  if (first < top && y < top + EDGE) return -FASTEST * share(top + EDGE - y);
  if (last > bottom && y > bottom - EDGE) return FASTEST * share(y - bottom + EDGE);
  return 0;
}

/**
 * Let `handle` drag an element of `list`. `over(y)` gets where the pointer is in the window, also while the page scrolls
 * below it. `end(isDropped)` ends the drag, which Escape cancels.
 */
export function dragBy(handle, { list, over, end }) {
  let pointer = null;
  let y = null;

  function finish(isDropped) {
    if (pointer === null) return;
    window.removeEventListener("keydown", onKey, true);
    pointer = y = null;
    end(isDropped);
  }

  function onKey(event) {
    if (event.key !== "Escape") return;
    event.preventDefault();
    event.stopPropagation();
    finish(false);
  }

  function scroll(before) {
    requestAnimationFrame((now) => {
      if (pointer === null) return;
      if (!handle.isConnected) return finish(false); // the list was drawn again
      const speed = y === null ? 0 : speedAt(y, list);
      if (speed) {
        window.scrollBy({ top: speed * Math.min(now - before, 50), behavior: "instant" });
        over(y);
      }
      scroll(now);
    });
  }

  handle.addEventListener("pointerdown", (event) => {
    event.preventDefault(); // which would select text
    if (pointer !== null) return;
    handle.setPointerCapture(event.pointerId);
    pointer = event.pointerId;
    window.addEventListener("keydown", onKey, true);
    scroll(performance.now());
  });
  handle.addEventListener("pointermove", (event) => {
    if (event.pointerId !== pointer) return;
    y = event.clientY;
    over(y);
  });
  handle.addEventListener("pointerup", (event) => event.pointerId === pointer && finish(true));
  handle.addEventListener("pointercancel", (event) => event.pointerId === pointer && finish(false));
}
