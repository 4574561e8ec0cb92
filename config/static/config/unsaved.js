// Warns before somebody leaves a page whose form came back with input that is not saved, such as a refused one. The theme
// warns only of what is typed after that. Links with `data-discards` are for leaving without the input.
const stay = (event) => event.preventDefault();
const leave = () => window.removeEventListener("beforeunload", stay);
window.addEventListener("beforeunload", stay);
for (const mark of document.querySelectorAll("[data-unsaved]")) mark.closest("form").addEventListener("submit", leave);
for (const link of document.querySelectorAll("a[data-discards]")) link.addEventListener("click", leave);
