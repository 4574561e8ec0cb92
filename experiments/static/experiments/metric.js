// The form of a metric shows what goes with its type. What is hidden is not sent, and comes back with the type.

const type = document.querySelector("select[name=type]");

function showWhatFits() {
  for (const input of document.querySelectorAll("[data-types]")) {
    const isFit = input.dataset.types.split(" ").includes(type.value);
    input.disabled = !isFit;
    const line = input.closest(".field-line");
    if (line) line.hidden = !isFit;
  }
}

if (type) {
  type.addEventListener("change", showWhatFits);
  showWhatFits();
}
