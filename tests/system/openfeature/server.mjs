// Ask the service through OpenFeature's client for servers. Standard input: one JSON document {address, headers} and
// then, a line each, questions {flag, default, context}. Standard output: a line of JSON with the details of each.
import { createInterface } from "node:readline";

import { OFREPProvider } from "@openfeature/ofrep-provider";
import { OpenFeature } from "@openfeature/server-sdk";

import METHODS from "./methods.mjs";

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const { address, headers } = JSON.parse((await lines.next()).value);
await OpenFeature.setProviderAndWait(new OFREPProvider({ baseUrl: address, headers: Object.entries(headers) }));
const client = OpenFeature.getClient();

for await (const line of { [Symbol.asyncIterator]: () => lines }) {
  const { flag, default: value, context } = JSON.parse(line);
  const details = await client[METHODS[typeof value]](flag, value, context);
  console.log(JSON.stringify(details));
}
