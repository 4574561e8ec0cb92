// Switches flags in their list, and undoes that, in place: the focus and the scroll position stay. A question that comes
// first is asked in a dialog. Whatever else the service answers, such as a page to sign in, the browser gets by itself.
import { make } from "../config/elements.js";
import { keepInPlace } from "../config/refreshing.js";
import { showList } from "../config/live_list.js";

const messages = document.getElementById("messages");
const dialog = make("dialog", { class: "hy-dialog", "aria-labelledby": "hy-question", onsubmit: sendInstead, oncancel: decline });
let earlier = Promise.resolve();
let pressed = null;

/** A switch by its row and its place in the row, because an update may replace the switch itself. */
function placeOf(button) {
  const row = button.closest("tbody");
  return { row, index: [...row.querySelectorAll(".hy-switch")].indexOf(button) };
}

function focus({ row, index }) {
  row.querySelectorAll(".hy-switch")[index]?.focus({ preventScroll: true });
}

async function send(form, button) {
  const address = button?.getAttribute("formaction") ?? form.getAttribute("action");
  const response = await fetch(address, { method: "POST", body: new FormData(form, button), headers: { accept: "text/html" } });
  if (!response.ok) return false;
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  if (page.querySelector("form.hy-confirm")) ask(page, response.url);
  else if (page.getElementById("changelist")) update(page);
  else return false;
  return true;
}

/** Send a form without leaving the page. If the answer belongs to neither the list nor a question, send it as browsers do. */
async function sendInPlace(form, button) {
  button?.setAttribute("aria-busy", "true");
  const isDone = await send(form, button).catch(() => false);
  button?.removeAttribute("aria-busy");
  if (isDone) return;
  form.dataset.leaves = "true";
  form.requestSubmit(button); // to switch to the same state twice does no harm
}

function sendInstead(event) {
  if (event.target.dataset.leaves) return;
  event.preventDefault();
  sendInPlace(event.target, event.submitter);
}

function ask(page, address) {
  const forms = ["form.hy-confirm", "#decline"].map((selector) => document.importNode(page.querySelector(selector), true));
  forms.forEach((form) => form.setAttribute("action", address));
  dialog.replaceChildren(...forms);
  dialog.querySelector("h2").id = "hy-question";
  if (!dialog.open) dialog.showModal();
  (dialog.querySelector("[role=alert] ~ input, .hy-wrong") ?? dialog.querySelector("h2")).focus();
}

/** Answer the question as its button to cancel does, which has the service say that nothing was changed. */
function decline(event) {
  event.preventDefault();
  dialog.querySelector("#decline").requestSubmit();
}

/** Show the messages of a list and its rows. */
function update(page) {
  dialog.close();
  const table = document.getElementById("result_list");
  if (pressed) moveOn(page);
  messages.classList.add("hy-messages-above");
  keepInPlace([table], () => messages.replaceChildren(...page.getElementById("messages").childNodes));
  const nothing = page.querySelector(".hy-empty");
  if (nothing) table.closest(".hy-table").replaceWith(nothing);
  else showList(page);
  if (document.activeElement === document.body) pressed && !nothing ? focus(pressed) : document.getElementById("content").focus();
}

/** Leave a row that is about to go, such as one that a filter no longer finds, for the next one. */
function moveOn(page) {
  const address = pressed.row.querySelector("th a[href]").getAttribute("href");
  const remains = [...page.querySelectorAll("#result_list th a[href]")].some((link) => link.getAttribute("href") === address);
  if (remains) return;
  const row = [pressed.row.nextElementSibling, pressed.row.previousElementSibling].find((sibling) => sibling?.matches("tbody"));
  if (row) focus(pressed = { ...pressed, row });
}

/** Wait until the question before is answered: a dialog has one question. */
function answered() {
  return dialog.open ? new Promise((resolve) => { dialog.addEventListener("close", resolve, { once: true }); }) : null;
}

document.addEventListener("submit", (event) => {
  const { target: form, submitter } = event;
  if (form.dataset.leaves || !(submitter?.matches(".hy-switch") || messages.contains(form))) return;
  event.preventDefault();
  if (submitter.matches(".hy-switch")) {
    pressed = placeOf(submitter);
    submitter.focus({ preventScroll: true }); // which Safari does not give to a button that is clicked
  }
  earlier = earlier.then(() => sendInPlace(form, submitter)).then(answered);
});
document.body.append(dialog);
