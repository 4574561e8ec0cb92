// Django's choosers of rights put a name for the reader of a screen on an icon that has no role, which may have none.
addEventListener("DOMContentLoaded", () => addEventListener("load", () => { // so that it comes after Django's own
  for (const icon of document.querySelectorAll(".selector .help-tooltip[aria-label]")) icon.setAttribute("role", "img");
}));
