import type {
  EvaluationContext,
  Hook,
  JsonValue,
  Provider,
  ResolutionDetails,
  TrackingEventDetails,
} from "@openfeature/web-sdk";

import type { Bootstrap, PageOptions } from "./client.d.mts";

export type { Bootstrap, PageOptions };

/** The provider for OpenFeature's SDK for pages. */
export class HalyardWebProvider implements Provider {
  constructor(options: PageOptions);
  readonly metadata: { readonly name: "Halyard" };
  readonly runsOn: "client";
  readonly events: NonNullable<Provider["events"]>;
  readonly hooks: Hook[];
  initialize(context?: EvaluationContext): Promise<void>;
  onContextChange(before: EvaluationContext, after: EvaluationContext): Promise<void>;
  onClose(): Promise<void>;
  resolveBooleanEvaluation(flag: string, defaultValue: boolean): ResolutionDetails<boolean>;
  resolveStringEvaluation(flag: string, defaultValue: string): ResolutionDetails<string>;
  resolveNumberEvaluation(flag: string, defaultValue: number): ResolutionDetails<number>;
  resolveObjectEvaluation<T extends JsonValue>(flag: string, defaultValue: T): ResolutionDetails<T>;
  track(event: string, context: EvaluationContext, details: TrackingEventDetails): void;
}
