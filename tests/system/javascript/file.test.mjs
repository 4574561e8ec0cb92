import assert from "node:assert/strict";
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";

import { createFile } from "../../../flags/clients/javascript/server/file.mjs";

const folder = await mkdtemp(join(tmpdir(), "halyard-"));
const file = join(folder, "ruleset.json");
const owner = { file, url: "https://flags.example.com", key: "hyd_s_1" };
const DOCUMENT = { etag: '"production-7"', text: '{"data":\n"Größe"}' };

after(() => rm(folder, { recursive: true }));

test("what is written is read, only by its owner, and nothing else is left", async () => {
  await createFile(owner).write(DOCUMENT);
  await createFile(owner).write(DOCUMENT);
  const { etag, text } = await createFile(owner).read();
  assert.deepEqual({ etag, text }, DOCUMENT);
  assert.equal((await stat(file)).mode & 0o777, 0o600);
  assert.deepEqual(await readdir(folder), ["ruleset.json"]);
});

test("a file of another key or address is refused", async () => {
  await createFile(owner).write(DOCUMENT);
  await assert.rejects(createFile({ ...owner, key: "hyd_s_2" }).read(), /another address or key/);
  await assert.rejects(createFile({ ...owner, url: "https://staging.example.com" }).read(), /another address or key/);
});

test("a file that is damaged at any byte is refused", async () => {
  await createFile(owner).write(DOCUMENT);
  const content = await readFile(file);
  for (let at = 0; at < content.length; at += 7) {
    const harmed = Buffer.from(content);
    harmed[at] ^= 1;
    await writeFile(file, harmed);
    await assert.rejects(createFile(owner).read());
  }
  await writeFile(file, content.subarray(0, -1));
  await assert.rejects(createFile(owner).read(), /checksum/);
});
