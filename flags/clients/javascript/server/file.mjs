// The last ruleset in a file, for a process that starts while the service is away.

import { createHash } from "node:crypto";
import { open, readFile, rename } from "node:fs/promises";

const digest = (text) => createHash("sha256").update(text).digest("hex");
let written = 0;

/** Return `read` and `write` of `{etag, text}`, for rulesets that this key gets at this address. */
export function createFile({ file, url, key }) {
  const owner = digest(`${url} ${key}`);

  /** Throws if the file is damaged, or of another address or key. */
  async function read() {
    const content = await readFile(file, "utf8");
    const end = content.indexOf("\n");
    const rest = content.slice(end + 1);
    if (content.slice(0, end) !== digest(rest)) throw new Error("its checksum is wrong");
    const document = JSON.parse(rest);
    if (document.owner !== owner) throw new Error("it is of another address or key");
    return document;
  }

  /** The file always has the whole old ruleset or the whole new one. */
  async function write({ etag, text }) {
    const rest = JSON.stringify({ owner, etag, text });
    const name = `${file}.${process.pid}-${(written += 1)}`;
    const handle = await open(name, "wx", 0o600);
    try {
      await handle.writeFile(`${digest(rest)}\n${rest}`);
      await handle.sync();
    } finally {
      await handle.close();
    }
    await rename(name, file);
  }

  return { read, write };
}
