// Completes the pages of the API for screen readers, while their scripts fill them: Redoc has headings of the fifth level
// right below those of the second, and Swagger UI shows its introduction outside of every landmark.
const COMPLETED = {
  "h5": { "aria-level": "3" },
  ".information-container": { role: "region", "aria-label": "Introduction" },
};

new MutationObserver(() => {
  for (const [selector, attributes] of Object.entries(COMPLETED)) {
    for (const element of document.querySelectorAll(`${selector}:not([data-completed])`)) {
      for (const [name, value] of Object.entries({ ...attributes, "data-completed": "" })) element.setAttribute(name, value);
    }
  }
}).observe(document.body, { childList: true, subtree: true });
