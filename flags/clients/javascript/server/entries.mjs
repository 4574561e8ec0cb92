// Evaluations by the ruleset, as the service answers them over OFREP.

import { resolve } from "./evaluator.mjs";

const REASONS = {
  disabled: "DISABLED",
  default: "STATIC",
  rule_match: "TARGETING_MATCH",
  no_rule_match: "UNKNOWN",
  prerequisite_failed: "UNKNOWN",
};

/** The entry of a flag for `{userId, attributes}`, or undefined if there is no such flag. */
export function entryOf(ruleset, key, user) {
  const flag = ruleset.flags.get(key);
  if (!flag) return undefined;
  try {
    const { userId, attributes } = user;
    return written(ruleset, flag, resolve(ruleset, key, { userId, attributes, now: BigInt(Date.now()) * 1_000n }));
  } catch (error) {
    return { key, errorCode: error.code ?? "GENERAL", errorDetails: error.message };
  }
}

function written({ environment, revision }, flag, { answer, rule, isSplit, participation }) {
  const { enabled, reason, variant = enabled ? "on" : "off", value = enabled } = answer;
  const metadata = { flagSetId: environment, revision, version: `${flag.version}`, reason };
  if (rule) metadata.rule = rule.index;
  if (rule?.name !== undefined) metadata.ruleName = rule.name;
  const driver = flag.rules.find(({ type }) => type === "experiment");
  if (driver) Object.assign(metadata, ofExperiment(driver, participation));
  const own = typeof value === "object" ? structuredClone(value) : value; // applications may change what they get
  return { key: flag.key, reason: isSplit ? "SPLIT" : REASONS[reason], value: own, variant, metadata };
}

/** About the experiment that drives the flag, and the user's part in it. */
function ofExperiment({ experiment }, { variant, inExperiment = false } = {}) {
  return { experiment, inExperiment, ...(variant && { experimentVariant: variant }) };
}
