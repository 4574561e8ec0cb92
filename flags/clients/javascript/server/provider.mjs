// The provider for OpenFeature's SDK for servers.

import { OpenFeatureEventEmitter, ProviderEvents } from "@openfeature/server-sdk";

import { detailsOf, failed } from "../common/answers.mjs";
import { createApi, warnOnce } from "../common/api.mjs";
import { readContext } from "../common/context.mjs";
import { createExposures, createTrack } from "../common/exposures.mjs";
import { createQueue } from "../common/queue.mjs";
import { evaluateLocally } from "./local.mjs";
import { evaluateRemotely } from "./remote.mjs";

const STALE = { message: "The ruleset is the last one that the file has." };

export class HalyardProvider {
  metadata = { name: "Halyard" };
  runsOn = "server";
  events = new OpenFeatureEventEmitter();
  hooks;
  #source;
  #queue;
  #track;
  #isStale = false;
  #flush = () => this.#queue.flush();

  /** The types say what the options mean. */
  constructor(options) {
    const warn = warnOnce(options.warn);
    const request = createApi(options);
    const onChange = () => this.events.emit(ProviderEvents.ConfigurationChanged, {});
    const open = options.mode === "local" ? evaluateLocally : evaluateRemotely;
    this.#queue = createQueue({ request, warn });
    this.#track = createTrack({ queue: this.#queue, warn });
    this.#source = open({ ...options, warn, request, onChange, onStatus: (error) => this.#tell(error) });
    // The service itself records the exposures of flags that it evaluates one at a time.
    const { exposureEvent: event } = options;
    const report = createExposures({ queue: this.#queue, warn, knows: this.#source.knows, event });
    const after = ({ context }, { flagMetadata }) => flagMetadata.inExperiment && report(flagMetadata, readContext(context));
    this.hooks = options.mode === "local" && options.exposures !== false ? [{ after }] : [];
  }

  async initialize() {
    process.once("beforeExit", this.#flush);
    await this.#source.start();
    if (this.#isStale) setImmediate(() => this.events.emit(ProviderEvents.Stale, STALE)); // after the SDK's own event
  }

  /** Send the events that wait, and end. */
  async onClose() {
    process.off("beforeExit", this.#flush);
    this.#source.close();
    await this.#queue.flush();
  }

  /** Send the events that wait, without ending. It resolves at the first failure, too. */
  flush() {
    return this.#queue.flush();
  }

  /** What the provider for pages takes as `bootstrap`: the values of all flags for a user. */
  async bootstrap(context) {
    const user = readContext(context);
    const { flags, metadata } = await this.#source.evaluateAll(user);
    return { targetingKey: user.userId, flags: flags.map(withoutRules), metadata };
  }

  resolveBooleanEvaluation(flag, value, context) {
    return this.#resolve(flag, "boolean", value, context);
  }

  resolveStringEvaluation(flag, value, context) {
    return this.#resolve(flag, "string", value, context);
  }

  resolveNumberEvaluation(flag, value, context) {
    return this.#resolve(flag, "number", value, context);
  }

  resolveObjectEvaluation(flag, value, context) {
    return this.#resolve(flag, "object", value, context);
  }

  track(event, { targetingKey } = {}, details) {
    this.#track(event, targetingKey, details);
  }

  async #resolve(flag, kind, value, context) {
    try {
      return detailsOf(flag, await this.#source.evaluate(flag, readContext(context)), kind, value);
    } catch (error) {
      return failed(value, error.code ?? "GENERAL", error.message);
    }
  }

  /** Say once that the ruleset is stale, or that it is no longer. */
  #tell(error) {
    if (Boolean(error) === this.#isStale) return;
    this.#isStale = Boolean(error);
    this.events.emit(error ? ProviderEvents.Stale : ProviderEvents.Ready, { message: error?.message });
  }
}

/** Browsers must not learn the rules. */
function withoutRules({ metadata: { rule, ruleName, ...metadata } = {}, ...entry }) {
  return { ...entry, metadata };
}
