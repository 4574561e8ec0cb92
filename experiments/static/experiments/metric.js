// Shows the fields of a metric that its type and its role use. Hidden fields are not sent, and keep their values.
import { whenRestored } from "../config/restored.js";

const type = document.querySelector("select[name=type]");
const role = document.querySelector("select[name=role]");

function showWhatFits() {
  for (const [name, select] of [["types", type], ["roles", role]]) {
    for (const input of document.querySelectorAll(`[data-${name}]`)) {
      const isFit = input.dataset[name].split(" ").includes(select.value);
      input.disabled = !isFit;
      const line = input.closest(".field-line");
      if (line) line.hidden = !isFit;
    }
  }
}

if (type && role) {
  for (const select of [type, role]) select.addEventListener("change", showWhatFits);
  showWhatFits();
  whenRestored(showWhatFits);
}
