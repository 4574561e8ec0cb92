import type {
  EvaluationContext,
  Hook,
  JsonValue,
  Provider,
  ResolutionDetails,
  TrackingEventDetails,
} from "@openfeature/server-sdk";

import type { Bootstrap, CommonOptions } from "../common/types.d.mts";

export type { Bootstrap };

export interface ServerOptions extends CommonOptions {
  /**
   * `remote` (the default) asks the service for each evaluation. `local` evaluates in this process, by the ruleset of
   * the environment, which needs a key of scope `server`.
   */
  mode?: "remote" | "local";
  /** In mode `remote`, the key of scope `client` that pages have. `bootstrap` asks with it. */
  clientKey?: string;
  /** In mode `local`, the file that keeps the last ruleset, for a start while the service is away. */
  file?: string;
}

/** The provider for OpenFeature's SDK for servers. */
export class HalyardProvider implements Provider {
  constructor(options: ServerOptions);
  readonly metadata: { readonly name: "Halyard" };
  readonly runsOn: "server";
  readonly events: NonNullable<Provider["events"]>;
  readonly hooks: Hook[];
  initialize(): Promise<void>;
  onClose(): Promise<void>;
  /** Sends the events that wait. It resolves at the first failure, too. */
  flush(): Promise<void>;
  /** What the provider for pages takes as `bootstrap`. In mode `remote`, it needs `clientKey`. */
  bootstrap(context: EvaluationContext): Promise<Bootstrap>;
  resolveBooleanEvaluation(
    flag: string,
    defaultValue: boolean,
    context: EvaluationContext,
  ): Promise<ResolutionDetails<boolean>>;
  resolveStringEvaluation(
    flag: string,
    defaultValue: string,
    context: EvaluationContext,
  ): Promise<ResolutionDetails<string>>;
  resolveNumberEvaluation(
    flag: string,
    defaultValue: number,
    context: EvaluationContext,
  ): Promise<ResolutionDetails<number>>;
  resolveObjectEvaluation<T extends JsonValue>(
    flag: string,
    defaultValue: T,
    context: EvaluationContext,
  ): Promise<ResolutionDetails<T>>;
  track(event: string, context: EvaluationContext, details: TrackingEventDetails): void;
}
