// Says below the form of a flag, before it is saved, which recent users would see something else, and at each rule how many
// users it decides. The server computes it from the form as it is.
import { make } from "../config/elements.js";

const MILLISECONDS_OF_REST = 600;

const panel = document.getElementById("hy-flips");
const form = panel?.closest("form");
let asked = null;
let timer = null;

async function ask() {
  asked?.abort();
  asked = new AbortController();
  const { signal } = asked;
  try {
    const response = await fetch(panel.dataset.address, { method: "POST", body: new FormData(form), signal });
    if (response.ok && !response.redirected) show(await response.json());
    else show({ words: "There is no preview now. You can save all the same." });
  } catch {
    if (!signal.aborted) show({ words: "There is no preview now, because the service did not answer." });
  }
}

function show({ words, notes = [], rules = [], examples = [] }) {
  const status = panel.querySelector("[role=status]");
  const text = [words, ...notes].join(" ");
  if (status.textContent !== text) status.textContent = text;
  panel.querySelector("div").replaceChildren(...(examples.length ? [table(examples)] : []));
  panel.removeAttribute("aria-busy");
  const cards = document.querySelectorAll("[data-editor-of=rules] .hy-editor-card");
  cards.forEach((card, at) => {
    const audience = card.querySelector(".hy-audience");
    if (audience) audience.textContent = rules[at] ?? "";
  });
}

function table(examples) {
  const cells = (tag, texts) => texts.map((text) => make(tag, tag === "th" ? { scope: "col" } : {}, text));
  const rows = examples.map(({ user, address, now, then }) => make("tr", {},
    ...cells("td", [make("a", { href: address, class: "hy-user" }, user), now, then])));
  const caption = examples.length === 1 ? "One of them" : `${examples.length} of them`;
  return make("table", { class: "hy-variants hy-narrow-table" }, make("caption", { class: "hy-unseen" }, caption),
    make("thead", {}, make("tr", {}, ...cells("th", ["User", "Now", "After saving"]))), make("tbody", {}, ...rows));
}

function askSoon() {
  panel.setAttribute("aria-busy", "true");
  clearTimeout(timer);
  timer = setTimeout(ask, MILLISECONDS_OF_REST);
}

if (panel && form) {
  form.addEventListener("input", askSoon);
  form.addEventListener("change", askSoon);
  ask();
}
