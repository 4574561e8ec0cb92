// What was typed into a page is put back by the browser when somebody goes back to it, or reloads it.

/**
 * Call `then` once the browser has put back what was typed into fields. It does so after scripts have run, and before
 * the page counts as shown. It knows only the fields of the page, so whatever scripts made of them must be made again.
 */
export function whenRestored(then) {
  if (performance.getEntriesByType("navigation")[0]?.type === "navigate") return; // to a page that has nothing to put back
  window.addEventListener("pageshow", then, { once: true });
}
