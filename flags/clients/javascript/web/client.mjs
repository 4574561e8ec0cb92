// The client for pages: it asks for the values of all flags at once, keeps them, and hears of changes.

import { detailsOf, failed } from "../common/answers.mjs";
import { createApi, pauseAfter, warnOnce } from "../common/api.mjs";
import { failure, readContext } from "../common/context.mjs";
import { createExposures, createTrack } from "../common/exposures.mjs";
import { createQueue } from "../common/queue.mjs";
import { createStorage } from "./storage.mjs";
import { createStream } from "./stream.mjs";

const BULK = "/ofrep/v1/evaluate/flags";
const FATAL = "PROVIDER_FATAL";

/** Return a client of the service at `url`, with a key of scope client. The types say what the options mean. */
export function createClient(options) {
  const { bootstrap, environment, pollInterval = 60_000, onStatus = () => {} } = options;
  const listeners = new Set();
  const warn = warnOnce(options.warn);
  const request = createApi(options);
  const kept = createStorage("localStorage", options);
  const session = createStorage("sessionStorage", options);
  const { seen: seenBefore, events = [] } = session.read() ?? {};
  const seen = new Set(seenBefore);
  const queue = createQueue({ request, warn, capacity: 1_000, events });
  const { exposures = true, exposureEvent: event } = options;
  const report = exposures ? createExposures({ queue, warn, knows, event, seen }) : () => {};
  const track = createTrack({ queue, warn });
  const onEnd = () => schedule(pauseAfter(++drops));
  const stream = createStream({ onOpen: () => (drops = 0), onChange: hear, onEnd });

  const page = globalThis.document;
  let user; // {userId, attributes}, once there is a context that can be sent
  let answer; // {userId, environment, revision, etag, flags, streams}
  let viewer; // the user of the answer
  let source; // of the answer: "network", "cache" or "bootstrap"
  let problem; // the last failure, until there is an answer
  let held = []; // exposures to values of a bootstrap that the service has not confirmed
  let [contexts, requests, answered] = [0, 0, 0];
  let [failures, drops] = [0, 0];
  let timer;

  /** Ask for the values of a user. At first, values that are known are used meanwhile. */
  async function setContext(context) {
    const isFirst = ++contexts === 1;
    clearTimeout(timer);
    user = undefined;
    try {
      user = readContext(context);
    } catch (error) {
      [answer, problem] = [undefined, error];
      throw error;
    }
    const last = kept.read();
    const known = last?.userId === user.userId ? last : undefined;
    if (isFirst) use(accepted(last?.environment), "bootstrap");
    if (!answer && isFirst) use(known, "cache");
    if (answer && isFirst) return void refresh();
    await ask().catch((error) => {
      if (answer?.userId !== user.userId) use(known, "cache");
      fail(error);
      if (!answer) throw error;
    });
  }

  /** The bootstrap, unless it is of another user or environment. */
  function accepted(known) {
    if (!Array.isArray(bootstrap?.flags)) return undefined;
    const { targetingKey = "", metadata = {} } = bootstrap;
    const wanted = environment ?? known;
    if (targetingKey !== user.userId) return refuse(`user ${targetingKey}`);
    if (wanted && metadata.flagSetId !== wanted) return refuse(`environment ${metadata.flagSetId}`);
    return read(bootstrap);
  }

  const refuse = (whose) => warn("bootstrap", `The bootstrap is ignored, because it is of the ${whose}.`);

  function read({ flags, metadata: { flagSetId, revision } = {}, eventStreams = [] }, etag) {
    const byKey = Object.fromEntries(flags.map((flag) => [flag.key, flag]));
    return { userId: user.userId, environment: flagSetId, revision, etag, flags: byKey, streams: eventStreams };
  }

  /** Use an answer from now on, and return the keys of the flags that it changes. */
  function use(next, from) {
    const [before, after] = [answer?.flags ?? {}, next?.flags ?? {}];
    [answer, source, viewer] = [next, from, user];
    const text = (flags, key) => JSON.stringify(flags[key]);
    return Object.keys({ ...before, ...after }).filter((key) => text(before, key) !== text(after, key));
  }

  /** Ask for all values. Throws what fails, with one of OpenFeature's codes. */
  async function ask(query = "") {
    const [context, number] = [contexts, ++requests];
    const { userId, attributes } = user;
    const isKnown = answer?.etag && answer.userId === userId;
    const body = JSON.stringify({ context: { ...attributes, ...(userId && { targetingKey: userId }) } });
    const response = await request(BULK + query, body, { headers: isKnown && { "If-None-Match": answer.etag } }).catch(
      (error) => {
        if (context === contexts) throw error; // otherwise nobody waits for this answer any more
      },
    );
    if (!response) return;
    const content = response.status === 304 ? {} : await response.json().catch(() => ({}));
    if (context !== contexts || number < answered) return; // something newer has been answered
    if (response.status !== 304 && !content.flags) throw refusal(response, content);
    answered = number;
    const next = content.flags ? read(content, response.headers.get("ETag")) : answer;
    confirm(next.environment);
    const changed = use(next, "network");
    if (content.flags) kept.write(next);
    [failures, problem] = [0, undefined];
    stream.open(next.streams[0]);
    schedule(pollInterval);
    onStatus();
    if (changed.length) listeners.forEach((listener) => listener(changed));
  }

  /** Report what the values of the bootstrap led to, if the service answers for the same environment. */
  function confirm(name) {
    if (source === "bootstrap" && answer.environment !== name) refuse(`environment ${answer.environment}`);
    held.filter(([of]) => of === name).forEach(([, ...given]) => report(...given));
    held = [];
  }

  function refresh(query) {
    if (user && problem?.code !== FATAL) return ask(query).catch(fail);
  }

  function fail(error) {
    problem = error;
    onStatus(error);
    if (error.code !== FATAL) schedule(pauseAfter(++failures, error.response));
  }

  function schedule(pause) {
    clearTimeout(timer);
    const isIdle = () => (stream.isOpen() && !failures) || page?.visibilityState === "hidden";
    if (pause) timer = setTimeout(() => (isIdle() ? schedule(pause) : refresh()), pause);
  }

  /** Where the tag of a change is a plain revision, the answer may have the change already. */
  function hear(tag) {
    if (/^\d+$/.test(tag) && Number(tag) <= answer?.revision) return;
    clearTimeout(timer);
    timer = setTimeout(() => refresh(`?flagConfigEtag=${encodeURIComponent(tag)}`), Math.random() * 100);
  }

  const save = () => session.write({ seen: [...seen], events: queue.waiting() });
  const leave = () => {
    queue.part();
    save();
  };
  const turn = () => {
    if (page.visibilityState === "hidden") leave();
    else if (!stream.isOpen() || failures) refresh();
  };
  page?.addEventListener("visibilitychange", turn);
  if (page) addEventListener("pagehide", leave);

  function close() {
    contexts += 1;
    user = undefined;
    clearTimeout(timer);
    stream.close();
    page?.removeEventListener("visibilitychange", turn);
    if (page) removeEventListener("pagehide", leave);
    save(); // the page may end before the queue is empty
    return queue.flush().finally(save);
  }

  /** The details of a flag, whose value is of a `kind` of `typeof`. */
  function details(flag, kind, defaultValue) {
    if (!answer) return failed(defaultValue, problem?.code ?? "PROVIDER_NOT_READY", problem?.message);
    const entry = Object.hasOwn(answer.flags, flag) ? answer.flags[flag] : undefined;
    return detailsOf(flag, entry, kind, defaultValue, source === "network" ? undefined : "CACHED");
  }

  /** Whether the experiment drives one of the flags of the answer. */
  function knows(experiment) {
    return Object.values(answer?.flags ?? {}).some(({ metadata }) => metadata?.experiment === experiment);
  }

  /** Report the exposure that the metadata of a flag speak of. */
  function expose(metadata) {
    if (!answer) return;
    if (source === "bootstrap" && !environment) held.push([answer.environment, metadata, viewer]);
    else report(metadata, viewer);
  }

  function value(flag, defaultValue) {
    const found = details(flag, typeof defaultValue, defaultValue);
    if (!found.errorCode) expose(found.flagMetadata);
    return found.value;
  }

  /** Call a function with the keys of the flags that changed. Returns a function that ends that. */
  function onChange(listener) {
    listeners.add(listener);
    return () => listeners.delete(listener);
  }

  const ready = setContext(options.context);
  ready.catch(() => {}); // `details` says what is wrong, too
  const trackEvent = (event, properties) => track(event, user?.userId, properties);
  return { ready, value, details, expose, setContext, track: trackEvent, onChange, flush: queue.flush, close };
}

function refusal(response, { errorCode = "GENERAL", errorDetails = `The service answers ${response.status}.` }) {
  const isFatal = response.status === 401 || response.status === 403;
  return Object.assign(failure(isFatal ? FATAL : errorCode, errorDetails), { response });
}
