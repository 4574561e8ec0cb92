// Shows the fields of a metric that its type uses. Hidden fields are not sent, and keep their values.

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
