// What a web application does with OpenFeature's client for browsers, for a test to call; `events` is what it heard.
import { OFREPWebProvider } from "@openfeature/ofrep-web-provider";
import { OpenFeature, ProviderEvents } from "@openfeature/web-sdk";

import METHODS from "./methods.mjs";

const client = OpenFeature.getClient();
const events = [];

for (const event of Object.values(ProviderEvents)) {
  OpenFeature.addHandler(event, (details) => events.push([event, details?.flagsChanged ?? []]));
}

async function start({ address, key, context, options }) {
  await OpenFeature.setContext(context);
  const headers = [["Authorization", `Bearer ${key}`]];
  await OpenFeature.setProviderAndWait(new OFREPWebProvider({ baseUrl: address, headers, ...options })).catch(() => {});
  return client.providerStatus;
}

function ask({ flag, default: value }) {
  return client[METHODS[typeof value]](flag, value);
}

window.shop = { start, ask, events, become: (context) => OpenFeature.setContext(context) };
