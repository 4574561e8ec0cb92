// Follows the events that arrive, above the list of events. Without this script the list is what it was on loading.
import { make } from "../config/elements.js";
import { inWords } from "../config/moments.js";
import { repeat } from "../config/refreshing.js";

const MILLISECONDS_BETWEEN_READS = 2000;
const MILLISECONDS_AFTER_A_FAILURE = 10_000;
const MOST_ROWS = 200;

const tail = document.getElementById("hy-tail");
const [start, stop] = ["hy-follow", "hy-unfollow"].map((id) => document.getElementById(id));
const list = tail?.querySelector("ol");
const status = tail?.querySelector("[role=status]");
const seen = new Map(); // addresses of the rows, which may be sent again

let position = "";
let number = 0;

function row(event) {
  const time = event.timestamp.slice(11, 19);
  const day = event.timestamp.slice(0, 10) === new Date().toISOString().slice(0, 10) ? "" : `${inWords(event.timestamp).split(",")[0]}, `;
  return make("li", {},
    make("a", { href: event.address }, make("time", { datetime: event.timestamp }, day + time)),
    make("a", { class: "hy-tail-name", href: event.eventAddress }, event.event),
    make("a", { href: event.userAddress }, event.userId),
    make("span", { class: "hy-muted" }, event.details));
}

/** Put new rows at the top. The row that has the focus stays, and so does what the reader has scrolled to. */
function add(events) {
  const fresh = events.filter((event) => !seen.has(event.address));
  for (const event of fresh) seen.set(event.address, row(event));
  const { scrollTop, scrollHeight } = list;
  list.prepend(...fresh.map((event) => seen.get(event.address)));
  if (scrollTop > 0) list.scrollTop = scrollTop + list.scrollHeight - scrollHeight;
  for (const [address, old] of [...seen].slice(0, Math.max(0, seen.size - MOST_ROWS))) {
    if (old.contains(document.activeElement)) continue;
    old.remove();
    seen.delete(address);
  }
  number += fresh.length;
}

function say(words) {
  if (status.textContent !== words) status.textContent = words;
}

function describe(hasMore) {
  const counted = number === 1 ? "1 event has" : `${number.toLocaleString("en-GB")} events have`;
  say(number ? `${counted} arrived.${hasMore ? " More arrive than can be shown." : ""}` : "Waiting for events.");
}

/** Read what has arrived. Returns false if there is nothing more to read. */
async function read() {
  const response = await fetch(`${tail.dataset.address}&${new URLSearchParams({ after: position })}`);
  if (response.redirected || response.status === 403) {
    say("You are no longer signed in. Open this page again.");
    return false;
  }
  if (response.status >= 500) throw new Error("unavailable");
  const answer = await response.json();
  if (!response.ok) {
    say(answer.error);
    return false;
  }
  if (tail.hidden) return false;
  position = answer.position;
  add(answer.events);
  describe(answer.hasMore);
  return true;
}

const following = repeat(read, MILLISECONDS_BETWEEN_READS, () => {
  say("The service does not answer. Trying again.");
  return MILLISECONDS_AFTER_A_FAILURE;
});

function set(isFollowing) {
  tail.hidden = !isFollowing;
  start.hidden = isFollowing;
  if (isFollowing) {
    position = "";
    say("Waiting for events.");
    stop.focus();
    following.start();
  } else {
    following.stop();
    number = 0;
    seen.clear();
    list.replaceChildren();
    start.focus();
  }
}

if (tail) {
  start.addEventListener("click", () => set(true));
  stop.addEventListener("click", () => set(false));
}
