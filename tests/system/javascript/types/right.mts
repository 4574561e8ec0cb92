// An application that uses all that the packages export. The compiler must accept it, and refuse each line after
// `@ts-expect-error`.
import { HalyardProvider, type Bootstrap, type ServerOptions } from "@halyard/server";
import { evaluate, readRuleset, type Answer } from "@halyard/server/evaluator";
import { HalyardWebProvider, type PageOptions } from "@halyard/web";
import { createClient, type Client } from "@halyard/web/client";
import { OpenFeature } from "@openfeature/server-sdk";
import { OpenFeature as OpenFeatureOfPages } from "@openfeature/web-sdk";

const options: ServerOptions = {
  url: "https://flags.example.com",
  key: "hyd_s_1",
  mode: "local",
  clientKey: "hyd_c_1",
  file: "/var/lib/shop/flags.json",
  exposures: true,
  exposureEvent: "seen",
  pollInterval: 0,
  timeout: 5_000,
  fetch,
  warn: (text) => text.toUpperCase(),
};
const provider = new HalyardProvider(options);
await OpenFeature.setProviderAndWait(provider);
const button: string = await OpenFeature.getClient().getStringValue("button", "blue", { targetingKey: "ada" });
OpenFeature.getClient().track("bought", { targetingKey: "ada" }, { value: 19.9, button });
const bootstrap: Bootstrap = await provider.bootstrap({ targetingKey: "ada", country: "DE" });
await provider.flush();
await provider.onClose();

const page: PageOptions = { url: options.url, key: "hyd_c_1", bootstrap, environment: "production" };
OpenFeatureOfPages.setProvider(new HalyardWebProvider(page), { targetingKey: "ada" });

const client: Client = createClient({ ...page, context: { targetingKey: "ada", company: { plan: "pro" } } });
await client.ready;
const texts: string = client.value("button", "blue");
const sizes: number = client.value("size", 7);
const isOn: boolean = client.value("dark-mode", false);
const theme: { colour: string } = client.value("theme", { colour: "blue" });
const end: () => void = client.onChange((flags) => flags.includes("button"));
client.track("bought", { value: sizes, texts, isOn, theme });
await client.setContext({ targetingKey: "bob" });
end();
await client.flush().then(client.close);

const answer: Answer = evaluate(readRuleset({ data: {} }, console.warn), "button", { userId: "ada", now: "2026-01-31" });
const reason: "disabled" | "prerequisite_failed" | "default" | "rule_match" | "no_rule_match" = answer.reason;
console.log(reason);

// @ts-expect-error: a provider needs a key
new HalyardProvider({ url: "https://flags.example.com" });
// @ts-expect-error: there is no such mode
new HalyardProvider({ ...options, mode: "edge" });
// @ts-expect-error: pages read no rules
new HalyardWebProvider({ ...page, mode: "local" });
// @ts-expect-error: a number of milliseconds
createClient({ ...page, timeout: "5s" });
// @ts-expect-error: the value has the type of the default
const wrong: number = client.value("button", "blue");
// @ts-expect-error: a flag needs a default
client.value("button");
// @ts-expect-error: an event needs a name
client.track({ value: wrong });
// @ts-expect-error: a user needs a moment
evaluate(readRuleset({ data: {} }), "button", { userId: "ada" });
// @ts-expect-error: what another page got is no bootstrap
createClient({ ...page, bootstrap: { flags: [] } });
