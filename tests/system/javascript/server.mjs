// An application in Node.js with Halyard's provider. Standard input: a line of JSON with the provider's options, and
// then a line for each call. Standard output: a line of JSON with the result of each. Warnings go to standard error.
import { createInterface } from "node:readline";

import { HalyardProvider } from "@halyard/server";
import { OpenFeature, ProviderEvents } from "@openfeature/server-sdk";

import METHODS from "./methods.mjs";

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const provider = new HalyardProvider(JSON.parse((await lines.next()).value));
const client = OpenFeature.getClient();
const events = [];
for (const event of Object.values(ProviderEvents)) client.addHandler(event, () => events.push(event));
await OpenFeature.setProviderAndWait(provider).catch(({ code, message }) => events.push(`${code}: ${message}`));

const CONTEXTS = {
  cycle() {
    const context = { targetingKey: "ada", list: [] };
    context.list.push({ context });
    return context;
  },
  bigint: () => ({ targetingKey: "ada", size: 7n }),
  badDate: () => ({ targetingKey: "ada", born: new Date(Number.NaN) }),
};

const CALLS = {
  ask({ flag, default: value, context }) {
    return client[METHODS[typeof value]](flag, value, CONTEXTS[context]?.() ?? context);
  },
  track({ event, context, details }) {
    client.track(event, context, details);
  },
  expose: ({ context, about }) => provider.hooks[0].after({ context }, { flagMetadata: about }),
  bootstrap: ({ context }) => provider.bootstrap(context),
  flush: () => provider.flush(),
  events: () => events,
  status: () => client.providerStatus,
  close: () => OpenFeature.close(),
  reopen: () => OpenFeature.clearProviders().then(() => OpenFeature.setProviderAndWait(provider)),
};

for await (const line of { [Symbol.asyncIterator]: () => lines }) {
  const { call, ...given } = JSON.parse(line);
  console.log(JSON.stringify((await CALLS[call](given)) ?? null));
}
