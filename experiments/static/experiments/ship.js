// A variant with objections requires a reason, which the server checks, too.
const reason = document.getElementById("id_reason");
const note = document.querySelector("[data-reason-needed]");
const choices = [...document.querySelectorAll("input[name=winner]")];

function update() {
  const chosen = choices.find((choice) => choice.checked);
  const isRequired = chosen !== undefined && "objections" in chosen.dataset;
  note.hidden = !isRequired;
  reason.required = isRequired;
}

for (const choice of choices) choice.addEventListener("change", update);
update();
