// The ruleset of a process: it is fetched, kept in a file, and renewed when the service says that it has changed.

import { pauseAfter } from "../common/api.mjs";
import { failure } from "../common/context.mjs";
import { readRuleset } from "./evaluator.mjs";
import { createFile } from "./file.mjs";
import { listen } from "./stream.mjs";

const NO_FLAG = JSON.stringify({ context: { flags: ["-"] } }); // only the address of the stream is needed

/** `onChange` is called after each new ruleset, and `onStatus` after each request, with its error if it failed. */
export function followRuleset(options) {
  const { request, warn, pollInterval = 60_000, onChange, onStatus } = options;
  const file = options.file && createFile(options);
  let ruleset;
  let etag;
  let wanted = 0; // the newest revision that the stream has named
  let renewing;
  let [failures, drops] = [0, 0];
  let [renewal, reopening, closeStream] = [];
  let isClosed = false;

  /** Resolves when there is a ruleset, perhaps that of the file. Rejects if there is none; it may come later. */
  async function start() {
    try {
      await fetchRuleset();
    } catch (error) {
      if (error.code === "PROVIDER_FATAL") throw error;
      fail(error);
      if (!(await useFile())) throw error;
    } finally {
      if (ruleset || failures) follow();
    }
  }

  async function useFile() {
    try {
      const { text } = await file.read();
      ruleset = readRuleset(JSON.parse(text), (message) => warn(message, message));
      return true;
    } catch (error) {
      if (file && error.code !== "ENOENT") warn("file", `The last ruleset is not used: ${error.message}.`);
      return false;
    }
  }

  async function fetchRuleset() {
    const response = await request("/v1/ruleset", undefined, { headers: etag && { "If-None-Match": etag } });
    if (response.status === 200) await take(await response.text(), response.headers.get("ETag"));
    else if (response.status !== 304) throw await refusal(response);
    failures = ruleset.revision < wanted ? failures + 1 : 0; // another host may know of the change later
    onStatus();
    schedule(failures ? pauseAfter(failures) : pollInterval);
  }

  async function take(text, tag) {
    const isFirst = !ruleset;
    ruleset = readRuleset(JSON.parse(text), (message) => warn(message, message));
    etag = tag;
    await file?.write({ text, etag }).catch(({ message }) => warn("file", `The ruleset is not kept: ${message}.`));
    if (!isFirst) onChange();
  }

  function renew() {
    renewing ??= fetchRuleset()
      .catch(fail)
      .finally(() => (renewing = undefined));
    return renewing;
  }

  function fail(error) {
    onStatus(error);
    schedule(pauseAfter(++failures, error.response));
  }

  function schedule(pause) {
    clearTimeout(renewal);
    if (!isClosed && pause) renewal = setTimeout(renew, pause).unref();
  }

  /** Listen to streams, one after the other. No answer of theirs may end the process. */
  function follow() {
    openStream().catch(reopen);
  }

  /** Ask for an address, which is valid for half an hour at least, and listen there until the stream ends. */
  async function openStream() {
    const { eventStreams: [offer] = [] } = await askForStreams();
    if (isClosed) return;
    if (!offer) return reopen();
    const onEnd = () => {
      reopen();
      schedule(pauseAfter(1)); // what changed meanwhile
    };
    closeStream = listen(offer.url, { onOpen: () => (drops = 0), onMessage: hear, onEnd });
  }

  async function askForStreams() {
    try {
      const response = await request("/ofrep/v1/evaluate/flags", NO_FLAG);
      return response.ok ? await response.json() : {};
    } catch {
      return {};
    }
  }

  function reopen() {
    if (!isClosed) reopening = setTimeout(follow, pauseAfter(++drops)).unref();
  }

  function hear({ type, etag: tag }) {
    if (type !== "refetchEvaluation") return;
    wanted = Math.max(wanted, Number.parseInt(tag, 10) || 0);
    if (wanted > ruleset?.revision) schedule(Math.random() * 100);
  }

  function close() {
    isClosed = true;
    clearTimeout(renewal);
    clearTimeout(reopening);
    closeStream?.();
  }

  return { ready: start(), current: () => ruleset, close };
}

async function refusal(response) {
  const { error } = await response.json().catch(() => ({}));
  const isFatal = response.status === 401 || response.status === 403;
  const message = error?.message ?? `The service answers ${response.status}.`;
  return Object.assign(failure(isFatal ? "PROVIDER_FATAL" : "GENERAL", message), { response });
}
