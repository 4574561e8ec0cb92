// The queue of events, which are sent in batches and again after failures. Their ids prevent duplicates.

import { pauseAfter } from "./api.mjs";

const MAX_EVENTS = 500;
const MAX_BYTES = 60_000; // of requests that outlive their page; browsers allow 64 KiB

/** `request` is that of the API. At most `capacity` events wait, and are sent after `delay` milliseconds. */
export function createQueue({ request, warn, capacity = 10_000, delay = 2_000, events = [] }) {
  const parting = new Set(); // events in requests that outlive the page
  let most = MAX_EVENTS;
  let failures = 0;
  let timer;
  let sending;

  /** Returns whether the event was queued. */
  function add(event, userId, properties) {
    if (events.length >= capacity) {
      warn("full", `The queue is full, so events are lost: ${capacity} wait.`);
      return false;
    }
    events.push({ id: newId(), event, userId, timestamp: new Date().toISOString(), properties });
    if (!sending && !failures && events.length >= MAX_EVENTS) send();
    else schedule(delay);
    return true;
  }

  function schedule(pause) {
    if (sending) return;
    timer ??= setTimeout(send, pause);
    timer.unref?.(); // a process may end before
  }

  /** Send what waits. It resolves when all is sent, or at the first failure of an attempt that begins now. */
  function flush() {
    // An attempt that began while the service was away says nothing about now.
    return sending ? sending.then(() => (events.length ? send() : undefined)) : send();
  }

  function send() {
    clearTimeout(timer);
    timer = undefined;
    sending ??= sendAll()
      .catch(() => pauseAfter(++failures)) // an answer of another form than the service's
      .then((pause) => {
        sending = undefined;
        if (events.length) schedule(pause ?? delay);
      });
    return sending;
  }

  async function sendAll() {
    while (events.length) {
      const batch = events.slice(0, most);
      const response = await post(batch).catch(() => undefined);
      if (!(await settle(batch, response))) return pauseAfter(++failures, response);
      failures = 0;
    }
  }

  const post = (batch, options) => request("/v1/events/batch", JSON.stringify({ events: batch }), options);

  /** Remove events that were stored or refused. Returns false if the batch must be sent again. */
  async function settle(batch, response) {
    if (!response) return false;
    const { status } = response;
    if (status === 401 || status === 403) warn("key", `Events are not accepted with this key (status ${status}).`);
    if (status !== 202 && status !== 400 && status !== 413) return false;
    const { data = [], error } = await response.json().catch(() => ({}));
    const isPartlyGood = status === 413 || error?.code === "malformed_json";
    if (isPartlyGood && batch.length > 1) {
      most = Math.ceil(batch.length / 2); // until the invalid event is alone
      return true;
    }
    if (status === 202) most = MAX_EVENTS;
    const refused = error ?? data.find((each) => each.status === "rejected")?.error;
    if (refused) warn("rejected", `Events were rejected and dropped: ${refused.message}`);
    const settled = new Set(batch);
    events = events.filter((event) => !settled.has(event));
    return true;
  }

  /** Send all events in a request that outlives the page. Events being sent are sent again with the same ids. */
  function part() {
    const batch = [];
    let size = JSON.stringify([...parting]).length * 3; // a character has at most 3 bytes for each unit
    for (const event of events) {
      if (parting.has(event)) continue;
      size += new TextEncoder().encode(JSON.stringify(event)).length + 1;
      if (size > MAX_BYTES || batch.length === MAX_EVENTS) break;
      batch.push(event);
    }
    if (batch.length === 0) return;
    batch.forEach((event) => parting.add(event));
    post(batch, { keepalive: true, signal: undefined })
      .then((response) => settle(batch, response))
      .catch(() => {}) // they are still in the queue
      .finally(() => batch.forEach((event) => parting.delete(event)));
  }

  if (events.length) schedule(0);
  return { add, flush, part, waiting: () => events };
}

/** A UUID of version 7. `crypto.randomUUID` exists only in pages of https. */
function newId() {
  const hex = (number, length) => number.toString(16).padStart(length, "0");
  const [a, b, ...others] = crypto.getRandomValues(new Uint16Array(5));
  const time = hex(Date.now(), 12);
  const groups = [time.slice(0, 8), time.slice(8), `7${hex(a & 0xfff, 3)}`, hex((b & 0x3fff) | 0x8000, 4)];
  return [...groups, others.map((each) => hex(each, 4)).join("")].join("-");
}
