// Time evaluations in process. Standard input: {ruleset, users, rounds, times}. Standard output: the CPU time of each
// round in milliseconds, through OpenFeature's client and by the provider alone.
import { readFileSync } from "node:fs";

import { HalyardProvider } from "@halyard/server";
import { OpenFeature } from "@openfeature/server-sdk";

const { ruleset, users, rounds, times } = JSON.parse(readFileSync(0, "utf8"));
const answer = (path) => (path.endsWith("/v1/ruleset") ? ruleset : { data: {} });
const fetch = async (path) => new Response(JSON.stringify(answer(path)), { headers: { ETag: '"1"' } });

const provider = new HalyardProvider({ url: "http://127.0.0.1:9", key: "hyd_s_none", mode: "local", fetch });
await OpenFeature.setProviderAndWait(provider);
const client = OpenFeature.getClient();
const keys = ruleset.data.flags.map(({ key }) => key);

async function timed(evaluate) {
  const before = process.cpuUsage();
  for (let at = 0; at < times; at += 1) await evaluate(keys[at % keys.length], users[at % users.length]);
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1_000;
}

const ways = {
  client: (key, user) => client.getBooleanValue(key, false, user),
  provider: (key, user) => provider.resolveBooleanEvaluation(key, false, user),
};
const measured = { client: [], provider: [] };
let on = 0;
for (let at = 0; at < times; at += 1) on += await ways.client(keys[at % keys.length], users[at % users.length]);
for (const [way, evaluate] of Object.entries(ways)) {
  for (let round = 0; round < rounds; round += 1) measured[way].push(await timed(evaluate));
}
await OpenFeature.close();
console.log(JSON.stringify({ on, ...measured }));
