import assert from "node:assert/strict";
import { test } from "node:test";

import { entryOf } from "../../../flags/clients/javascript/server/entries.mjs";
import { readRuleset } from "../../../flags/clients/javascript/server/evaluator.mjs";
import { evaluateRemotely } from "../../../flags/clients/javascript/server/remote.mjs";

test("an object that an application changes stays as it was for others", () => {
  const variants = { variants: [{ key: "sea", value: { lines: [] } }], defaultVariant: "sea", offVariant: "sea" };
  const flag = { key: "banner", enabled: true, version: 1, rules: [], type: "object", ...variants };
  const ruleset = readRuleset({ data: { environment: "production", revision: 1, flags: [flag], segments: [] } });
  const ask = (userId) => entryOf(ruleset, "banner", { userId, attributes: {} }).value;
  ask("ada").lines.push("for Ada");
  assert.deepEqual(ask("bob"), { lines: [] });
});

test("a service that asks for a pause gets no request until it is over", async () => {
  let sent = 0;
  const request = async () => {
    sent += 1;
    return Response.json({ errorDetails: "too many" }, { status: 429, headers: { "Retry-After": "60" } });
  };
  const { evaluate } = evaluateRemotely({ request });
  for (const expected of [/too many/, /asked for a pause/]) {
    await assert.rejects(evaluate("banner", { userId: "ada", attributes: {} }), expected);
  }
  assert.equal(sent, 1);
});

for (const [name, attempts] of [["TimeoutError", 1], ["TypeError", 2]]) {
  test(`a request that fails with ${name} is sent ${attempts} times`, async () => {
    let sent = 0;
    const request = async () => {
      sent += 1;
      throw Object.assign(new Error("no answer"), { name });
    };
    await assert.rejects(evaluateRemotely({ request }).evaluate("banner", { userId: "ada", attributes: {} }));
    assert.equal(sent, attempts);
  });
}
