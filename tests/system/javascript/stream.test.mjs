import assert from "node:assert/strict";
import { createServer } from "node:http";
import { test } from "node:test";

import { followRuleset } from "../../../flags/clients/javascript/server/ruleset.mjs";
import { listen } from "../../../flags/clients/javascript/server/stream.mjs";

/** Resolves with what a stream of these lines says until it ends, although the service would leave it open. */
async function hear(text) {
  const server = createServer((_, response) => response.write(text)).listen(0, "127.0.0.1");
  await new Promise((resolve) => server.on("listening", resolve));
  const heard = [];
  await new Promise((onEnd) => {
    const onMessage = ({ type }) => heard.push(type);
    listen(`http://127.0.0.1:${server.address().port}/`, { onOpen() {}, onMessage, onEnd });
  });
  server.close();
  return heard;
}

for (const broken of ["<html>", "null", '{"type": "b"']) {
  test(`stream: the message ${broken} ends it, and not the process`, { timeout: 20_000 }, async () => {
    assert.deepEqual(await hear(`data: {"type": "a"}\n\ndata: ${broken}\n\n`), ["a"]);
  });
}

for (const answer of ["null", '{"eventStreams": [{"url": "no address"}]}']) {
  test(`ruleset: the offer ${answer} of a stream does not end the process`, { timeout: 20_000 }, async () => {
    const ruleset = JSON.stringify({ data: { environment: "production", revision: 1, flags: [], segments: [] } });
    let [offers, askAgain] = [0];
    const again = new Promise((resolve) => (askAgain = resolve));
    const request = async (path) => {
      if (path === "/v1/ruleset") return new Response(ruleset);
      if (++offers > 1) askAgain();
      return new Response(answer);
    };
    const nothing = () => {};
    const follower = followRuleset({ request, warn: nothing, onChange: nothing, onStatus: nothing });
    await follower.ready;
    const alive = setInterval(nothing, 1000); // waiting for another try does not keep a process alive
    await again;
    clearInterval(alive);
    follower.close();
  });
}
