// A reason is needed for a variant that something speaks against; the server says so too.
const reason = document.getElementById("id_reason");
const note = document.querySelector("[data-reason-needed]");
const choices = [...document.querySelectorAll("input[name=winner]")];

function ask() {
  const chosen = choices.find((choice) => choice.checked);
  const isNeeded = chosen !== undefined && "against" in chosen.dataset;
  note.hidden = !isNeeded;
  reason.required = isNeeded;
}

for (const choice of choices) choice.addEventListener("change", ask);
ask();
