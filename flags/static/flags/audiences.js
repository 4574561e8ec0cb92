// Says beside the switches in the list of flags for how many recent users each flag is on. The server evaluates them.
import { make } from "../config/elements.js";
import { fetchAnswer } from "../config/refreshing.js";

const table = document.getElementById("result_list");

/** The rows of the list by the ids of their flags. */
function rowsById() {
  const rows = [...table.querySelectorAll(".data-row")];
  return new Map(rows.map((row) => [row.querySelector("th a[href]")?.pathname.split("/").at(-3), row]));
}

function show(cell, audience) {
  const shown = cell.querySelector(".hy-share");
  if (!audience) return shown?.remove();
  const share = make("span", { class: "hy-share", title: audience.words }, `${audience.share} of users`);
  if (shown) shown.replaceWith(share);
  else (cell.querySelector(".hy-switch, .hy-state") ?? cell).after(share);
}

async function ask() {
  const rows = rowsById();
  const answer = await fetchAnswer(`audiences/?${new URLSearchParams([...rows.keys()].map((id) => ["flag", id]))}`);
  if (answer === null) return;
  for (const [id, row] of rows) {
    row.querySelectorAll(".field-switch_here, .field-switch").forEach((cell, at) => show(cell, answer[id]?.[at]));
  }
}

if (table?.querySelector(".data-row")) {
  document.addEventListener("hy-list", ask);
  ask();
}
