// The provider for OpenFeature's SDK for pages.

import { OpenFeatureEventEmitter, ProviderEvents } from "@openfeature/web-sdk";

import { createClient } from "./client.mjs";

export class HalyardWebProvider {
  metadata = { name: "Halyard" };
  runsOn = "client";
  events = new OpenFeatureEventEmitter();
  hooks = [{ after: (_, { flagMetadata }) => this.#client?.expose(flagMetadata) }];
  #options;
  #client;
  #isStale = false;

  constructor(options) {
    this.#options = options;
  }

  initialize(context) {
    this.#client = createClient({ ...this.#options, context, onStatus: (error) => this.#tell(error) });
    this.#client.onChange((flagsChanged) => this.events.emit(ProviderEvents.ConfigurationChanged, { flagsChanged }));
    return this.#client.ready;
  }

  onContextChange(_, context) {
    return this.#client?.setContext(context);
  }

  onClose() {
    return this.#client?.close() ?? Promise.resolve();
  }

  resolveBooleanEvaluation(flag, value) {
    return this.#client.details(flag, "boolean", value);
  }

  resolveStringEvaluation(flag, value) {
    return this.#client.details(flag, "string", value);
  }

  resolveNumberEvaluation(flag, value) {
    return this.#client.details(flag, "number", value);
  }

  resolveObjectEvaluation(flag, value) {
    return this.#client.details(flag, "object", value);
  }

  track(event, _, details) {
    this.#client?.track(event, details);
  }

  /** Say once that the values are stale, or that they are no longer. */
  #tell(error) {
    if (Boolean(error) === this.#isStale) return;
    this.#isStale = Boolean(error);
    const { code: errorCode, message } = error ?? {};
    if (errorCode === "PROVIDER_FATAL") this.events.emit(ProviderEvents.Error, { errorCode, message });
    else this.events.emit(error ? ProviderEvents.Stale : ProviderEvents.Ready, { message });
  }
}
