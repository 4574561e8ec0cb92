import assert from "node:assert/strict";
import { test } from "node:test";

import { createClient } from "../../../flags/clients/javascript/web/client.mjs";

const metadata = { experiment: "e", experimentVariant: "green", inExperiment: true };
const FLAGS = [{ key: "colour", value: "#0f0", variant: "green", reason: "SPLIT", metadata }];
const ANSWER = { flags: FLAGS, metadata: { flagSetId: "production", revision: 1 } };

/** A client of a service that answers by `judge`, which gets the user id; it notes events, problems and warnings. */
function start(judge, options = {}) {
  const [events, problems] = [[], []];
  const fetch = async (url, { body }) => {
    const document = JSON.parse(body);
    if (document.events) events.push(...document.events);
    return document.events ? Response.json({ data: [] }, { status: 202 }) : judge(document.context.targetingKey);
  };
  const onStatus = (error) => error && problems.push(error.message);
  const base = { url: "http://flags.test", key: "hyd_c_1", pollInterval: 0, warn: () => {}, fetch, onStatus };
  return { client: createClient({ ...base, context: { targetingKey: "ada" }, ...options }), events, problems };
}

test("a request for a user who was replaced meanwhile may fail unheard", async () => {
  let fail;
  const waits = new Promise((_, reject) => (fail = reject));
  const { client, problems } = start((userId) => (userId === "bob" ? waits : Response.json(ANSWER)));
  await client.ready;
  const left = client.setContext({ targetingKey: "bob" });
  await client.setContext({ targetingKey: "cleo" });
  fail(new Error("the network is away"));
  await left;
  assert.equal(client.value("colour", "none"), "#0f0");
  assert.deepEqual(problems, []);
  await client.close();
});

test("exposures to a bootstrap of another environment are never reported", async () => {
  let isAway = true;
  const judge = () => (isAway ? Promise.reject(new Error("away")) : Response.json(ANSWER));
  const foreign = { targetingKey: "ada", flags: FLAGS, metadata: { flagSetId: "elsewhere" } };
  const { client, events } = start(judge, { bootstrap: foreign });
  await client.ready;
  assert.equal(client.value("colour", "none"), "#0f0");
  await client.setContext({ targetingKey: "bob" }).catch(() => {});
  isAway = false;
  await client.setContext({ targetingKey: "cleo" });
  await client.close();
  assert.deepEqual(events, []);
});

test("a client that shall not report exposures reports none", async () => {
  const { client, events } = start(() => Response.json(ANSWER), { exposures: false });
  await client.ready;
  assert.equal(client.value("colour", "none"), "#0f0");
  client.track("visit");
  await client.close();
  assert.deepEqual(events.map(({ event }) => event), ["visit"]);
});

test("a hook that reports an unknown experiment is warned of once, and loses nothing else", async () => {
  const warnings = [];
  const { client, events } = start(() => Response.json(ANSWER), { warn: (text) => warnings.push(text) });
  await client.ready;
  for (let time = 0; time < 2; time += 1) client.expose({ ...metadata, experiment: "elsewhere" });
  client.expose(metadata);
  client.track("visit");
  await client.close();
  assert.deepEqual(warnings, ["Halyard: No experiment has the key elsewhere: exposures are dropped."]);
  assert.deepEqual(events.map(({ event }) => event), ["experiment_exposure", "visit"]);
});
