import assert from "node:assert/strict";
import { test } from "node:test";

import { readContext } from "../../../flags/clients/javascript/common/context.mjs";

test("a context is read as JSON has it", () => {
  const url = new URL("https://flags.example.com/");
  const given = { url, born: new Date(0), size: Infinity, none: null, call() {}, mark: Symbol("x"), list: [url] };
  const { userId, attributes } = readContext({ targetingKey: "ada", ...given });
  assert.equal(userId, "ada");
  assert.deepEqual(JSON.parse(JSON.stringify(attributes)), JSON.parse(JSON.stringify(given)));
  assert.deepEqual([attributes.call, attributes.mark], [undefined, undefined]);
});

test("a key of 200 characters is taken, however many units each has", () => {
  assert.equal(readContext({ targetingKey: "😀".repeat(200) }).userId.length, 400);
});

for (const targetingKey of ["😀".repeat(201), "a\0b", "\ud800", 0, false, {}]) {
  test(`the key ${JSON.stringify(targetingKey).slice(0, 20)} is refused`, () => {
    assert.throws(() => readContext({ targetingKey }), { code: "INVALID_CONTEXT" });
  });
}

test("an object that is its own JSON is refused", () => {
  const endless = { toJSON: () => ({ endless }) };
  assert.throws(() => readContext({ endless }), { code: "INVALID_CONTEXT" });
});
