/** What `GET /v1/ruleset` answered, ready to evaluate. */
export interface Ruleset {
  readonly environment: string;
  readonly revision: number;
}

export interface User {
  userId: string;
  attributes?: Record<string, unknown>;
  /** A timestamp in ISO 8601. */
  now: string;
}

export interface Answer {
  enabled: boolean;
  reason: "disabled" | "prerequisite_failed" | "default" | "rule_match" | "no_rule_match";
  variant?: string;
  value?: unknown;
}

/** `warn` gets a sentence for each pattern that cannot be searched for; by default, `console.warn` does. */
export function readRuleset(document: { data: unknown }, warn?: (message: string) => void): Ruleset;

/** Evaluates a flag of the ruleset as `POST /v1/flags/<key>/evaluate` does. */
export function evaluate(ruleset: Ruleset, key: string, user: User): Answer;
