import assert from "node:assert/strict";
import { test } from "node:test";

import { pauseAfter, warnOnce } from "../../../flags/clients/javascript/common/api.mjs";
import { createExposures } from "../../../flags/clients/javascript/common/exposures.mjs";
import { createQueue } from "../../../flags/clients/javascript/common/queue.mjs";

/** A service that answers by `judge`, which gets the events of a request; it remembers all requests. */
function service(judge) {
  const requests = [];
  const warnings = [];
  const request = async (path, body, options = {}) => {
    const { events } = JSON.parse(body);
    requests.push({ events, size: Buffer.byteLength(body), ...options });
    const [status, document = {}] = judge(events, requests.length);
    return new Response(JSON.stringify(document), { status });
  };
  const warn = (kind) => warnings.push(kind);
  return { requests, warnings, request, warn };
}

const accept = (events) => [202, { data: events.map(({ id }) => ({ id, status: "accepted" })) }];
const ABOUT = { experiment: "e", experimentVariant: "green", inExperiment: true };
const ids = (events) => events.map(({ id }) => id);

test("events go in batches of at most 500, in their order, each with an id of its own", async () => {
  const { requests, request, warn } = service(accept);
  const queue = createQueue({ request, warn, delay: 60_000 });
  for (let at = 0; at < 1_200; at += 1) queue.add(`e${at}`, "ada", {});
  await queue.flush();
  assert.deepEqual(requests.map(({ events }) => events.length), [500, 500, 200]);
  const sent = requests.flatMap(({ events }) => events);
  assert.deepEqual(sent.map(({ event }) => event), Array.from({ length: 1_200 }, (_, at) => `e${at}`));
  assert.equal(new Set(ids(sent)).size, 1_200);
  for (const id of ids(sent)) assert.match(id, /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
});

test("what fails is sent again with the same ids, and nothing is sent meanwhile", async () => {
  const { requests, request, warn } = service((events, number) => (number < 3 ? [503] : accept(events)));
  const queue = createQueue({ request, warn, delay: 60_000 });
  queue.add("one", "ada", {});
  await queue.flush();
  queue.add("two", "ada", {});
  await queue.flush();
  assert.equal(queue.waiting().length, 2);
  await queue.flush();
  const [first, second, third] = requests.map(({ events }) => ids(events));
  assert.deepEqual([second[0], third], [first[0], second]);
  assert.deepEqual(queue.waiting(), []);
});

test("pauses grow, and last as long as the service asks for, up to an hour", () => {
  const pause = (failures, seconds) =>
    pauseAfter(failures, new Response(null, { headers: seconds === undefined ? {} : { "Retry-After": seconds } }));
  for (let failures = 1; failures < 20; failures += 1) {
    const most = Math.min(60_000, 500 * 2 ** failures);
    assert.ok(pause(failures) >= most / 2 && pause(failures) <= most);
  }
  assert.deepEqual([pause(1, "120"), pause(1, "999999999")], [120_000, 3_600_000]);
  assert.ok(pause(1, "Wed, 21 Oct 2026 07:28:00 GMT") <= 1_000);
});

test("a rejected event is dropped with a warning, and the others are stored", async () => {
  const error = { code: "validation_failed", message: "bad" };
  const answer = ({ event }) => (event === "bad" ? { status: "rejected", error } : { status: "accepted" });
  const judge = (events) => [202, { data: events.map(answer) }];
  const { warnings, request, warn } = service(judge);
  const queue = createQueue({ request, warn, delay: 60_000 });
  ["good", "bad", "good"].forEach((event) => queue.add(event, "ada", {}));
  await queue.flush();
  assert.deepEqual([queue.waiting(), warnings], [[], ["rejected"]]);
});

test("a batch of which every event is rejected is dropped", async () => {
  const { warnings, request, warn } = service(() => [400, { error: { code: "validation_failed", message: "bad" } }]);
  const queue = createQueue({ request, warn, delay: 60_000 });
  queue.add("bad", "ada", {});
  await queue.flush();
  assert.deepEqual([queue.waiting(), warnings], [[], ["rejected"]]);
});

for (const [status, code] of [[400, "malformed_json"], [413, "body_too_large"]]) {
  test(`one event that spoils its whole batch with ${code} is found and dropped alone`, async () => {
    const stored = [];
    const { request, warn } = service((events) => {
      if (events.some(({ event }) => event === "poison")) return [status, { error: { code, message: "no" } }];
      stored.push(...events.map(({ event }) => event));
      return accept(events);
    });
    const queue = createQueue({ request, warn, delay: 60_000 });
    for (let at = 0; at < 20; at += 1) queue.add(at === 13 ? "poison" : `e${at}`, "ada", {});
    await queue.flush();
    assert.equal(stored.length, 19);
    assert.deepEqual(queue.waiting(), []);
  });
}

test("a full queue drops what comes, with a warning", () => {
  const { warnings, request, warn } = service(accept);
  const queue = createQueue({ request, warn, capacity: 3, delay: 60_000 });
  for (let at = 0; at < 5; at += 1) queue.add(`e${at}`, "ada", {});
  assert.deepEqual(queue.waiting().map(({ event }) => event), ["e0", "e1", "e2"]);
  assert.deepEqual(warnings, ["full", "full"]);
});

test("an exposure is reported once, and again only if the queue was full", async () => {
  const { requests, request, warn } = service(accept);
  const queue = createQueue({ request, warn, capacity: 1, delay: 60_000 });
  const report = createExposures({ queue });
  const seen = (userId, metadata = ABOUT) => report(metadata, { userId, attributes: {} });
  for (const userId of ["ada", "ada", "bob"]) seen(userId);
  await queue.flush();
  for (const userId of ["ada", "bob", "bob"]) seen(userId);
  seen("cleo", { ...ABOUT, inExperiment: false });
  seen("dora", {});
  await queue.flush();
  assert.deepEqual(requests.flatMap(({ events }) => events.map(({ userId }) => userId)), ["ada", "bob"]);
  assert.deepEqual(requests[0].events[0].properties, { experimentId: "e", variant: "green" });
});

test("an exposure has the attributes that the service stores", async () => {
  const { requests, request, warn } = service(accept);
  const queue = createQueue({ request, warn, delay: 60_000 });
  const kept = { country: "CH", beta: false, age: 7, text: "😀".repeat(200) };
  const left = { variant: "x", revenue: 5, nul: "\0", half: "\ud800", huge: 2 ** 64, list: [1], within: {}, none: null };
  const others = { "": 1, long: "x".repeat(201), ["n".repeat(101)]: 1 };
  createExposures({ queue })(ABOUT, { userId: "ada", attributes: { ...left, ...others, ...kept } });
  const many = Object.fromEntries(Array.from({ length: 40 }, (_, at) => [`a${at}`, at]));
  createExposures({ queue })(ABOUT, { userId: "bob", attributes: many });
  await queue.flush();
  const [ada, bob] = requests[0].events.map(({ properties }) => properties);
  assert.deepEqual(ada, { ...kept, experimentId: "e", variant: "green" });
  assert.equal(Object.keys(bob).length, 34);
});

test("a page that is left sends at most 64 KiB, and again what is on its way", async () => {
  let answer;
  const { requests, request, warn } = service(accept);
  const held = (path, body, options) => {
    const answered = request(path, body, options);
    return options?.keepalive ? answered : new Promise((resolve) => (answer = () => resolve(answered)));
  };
  const queue = createQueue({ request: held, warn, delay: 60_000 });
  for (let at = 0; at < 100; at += 1) queue.add("view", "ada", { text: "ä".repeat(500) });
  const flushed = queue.flush();
  queue.part();
  queue.part();
  const [whole, parting, ...others] = requests;
  assert.equal(parting.keepalive, true);
  assert.ok(parting.events.length > 20 && parting.size < 65_536 && others.length === 0);
  assert.deepEqual(ids(parting.events), ids(whole.events).slice(0, parting.events.length));
  answer();
  await flushed;
  assert.deepEqual(queue.waiting(), []);
});

test("events of an earlier page are sent with their ids", async () => {
  const { requests, request, warn } = service(accept);
  const left = { id: "01a1fd0c-0f3b-7192-81ad-08e2b088a31d", event: "view", userId: "ada", properties: {} };
  await createQueue({ request, warn, events: [left] }).flush();
  assert.deepEqual(requests[0].events, [left]);
});

test("an answer of another form than the service's stops nothing", async () => {
  const { requests, request, warn } = service((events, number) => (number === 1 ? [400, null] : accept(events)));
  const queue = createQueue({ request, warn, delay: 60_000 });
  queue.add("one", "ada", {});
  await queue.flush();
  await queue.flush();
  assert.equal(requests.length, 2);
  assert.deepEqual(queue.waiting(), []);
});

test("a flush during an attempt that fails tries once more", async () => {
  const { requests, request, warn } = service((events, number) => (number === 1 ? undefined : accept(events)));
  const queue = createQueue({ request, warn, delay: 60_000 });
  queue.add("one", "ada", {});
  await Promise.all([queue.flush(), queue.flush()]);
  assert.equal(requests.length, 2);
  assert.deepEqual(queue.waiting(), []);
});

test("exposures to an unknown experiment are dropped with one warning, and the others are sent", async () => {
  const { requests, warnings, request, warn } = service(accept);
  const queue = createQueue({ request, warn: () => {}, delay: 60_000 });
  const report = createExposures({ queue, warn: warnOnce(warn), knows: (experiment) => experiment === "e" });
  for (const userId of ["ada", "bob"]) {
    for (const experiment of ["other", "e", ["e"], 5, ""]) report({ ...ABOUT, experiment }, { userId, attributes: {} });
    for (const experimentVariant of [undefined, null, "", 5]) {
      report({ ...ABOUT, experimentVariant }, { userId, attributes: {} });
    }
  }
  await queue.flush();
  assert.deepEqual(warnings, ["Halyard: No experiment has the key other: exposures are dropped."]);
  assert.deepEqual(requests.flatMap(({ events }) => events.map(({ userId }) => userId)), ["ada", "bob"]);
  assert.deepEqual(requests[0].events[0].properties, { experimentId: "e", variant: "green" });
});

test("exposures that the service refuses are dropped with one warning, and block no others", async () => {
  const error = { code: "validation_failed", message: "bad" };
  const answer = ({ userId }) => (userId === "bob" ? { status: "rejected", error } : { status: "accepted" });
  const { requests, warnings, request, warn } = service((events) => [202, { data: events.map(answer) }]);
  const queue = createQueue({ request, warn: warnOnce(warn), delay: 60_000 });
  const report = createExposures({ queue, warn });
  for (const experiment of ["e", "f"]) {
    for (const userId of ["ada", "bob"]) report({ ...ABOUT, experiment }, { userId, attributes: {} });
    await queue.flush();
  }
  assert.deepEqual([queue.waiting(), requests.map(({ events }) => events.length)], [[], [2, 2]]);
  assert.deepEqual(warnings, ["Halyard: Events were rejected and dropped: bad"]);
});
