// A variant, or users, with objections require a reason, which the server checks, too.
import { whenRestored } from "../config/restored.js";

const reason = document.getElementById("id_reason");
const note = document.querySelector("[data-reason-needed]");
const choices = ["winner", "ship_to", "enable", "keep_counting"].flatMap((name) => [
  ...document.querySelectorAll(`input[name=${name}]`),
]);
const isFlagOff = choices.some((choice) => choice.name === "enable");

function update() {
  const chosen = choices.filter((choice) => choice.checked);
  const valueOf = (name) => chosen.find((choice) => choice.name === name)?.value;
  const isServed = !isFlagOff || valueOf("enable") === "true"; // a flag that stays off changes nothing for anyone
  const affectsOutsiders = ({ dataset }) => (dataset.outsiders ?? "").split(" ").includes(valueOf("winner"));
  const isRequired = chosen.some((each) => "objections" in each.dataset || (isServed && affectsOutsiders(each)));
  note.hidden = !isRequired;
  reason.required = isRequired;
}

for (const choice of choices) choice.addEventListener("change", update);
update();
whenRestored(update);
