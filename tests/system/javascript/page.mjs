// What a web application does with Halyard's provider, for a test to call. `events` and `warnings` are what it heard.
import { HalyardWebProvider } from "@halyard/web";
import { OpenFeature, ProviderEvents } from "@openfeature/web-sdk";

import METHODS from "./methods.mjs";

const client = OpenFeature.getClient();
const events = [];
const warnings = [];

for (const event of Object.values(ProviderEvents)) {
  OpenFeature.addHandler(event, (details) => events.push([event, details?.flagsChanged ?? []]));
}

async function start({ context, ...options }) {
  await OpenFeature.setContext(context);
  const provider = new HalyardWebProvider({ ...options, warn: (text) => warnings.push(text) });
  await OpenFeature.setProviderAndWait(provider).catch(() => {});
  return client.providerStatus;
}

function ask({ flag, default: value }) {
  return client[METHODS[typeof value]](flag, value);
}

function become(context) {
  return OpenFeature.setContext(context);
}

function becomeCyclic() {
  const context = { targetingKey: "ada" };
  context.self = context;
  return become(context);
}

function track({ event, details }) {
  client.track(event, details);
}

window.shop = { start, ask, become, becomeCyclic, track, events, warnings, status: () => client.providerStatus };
