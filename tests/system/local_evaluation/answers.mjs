// Answers questions by the evaluator alone: a document of them on standard input, their answers on standard output.

import { readFileSync } from "node:fs";

import { bucket, chooseVariant, evaluate, readRuleset } from "../../../flags/clients/javascript/server/evaluator.mjs";
import { compilePattern } from "../../../flags/clients/javascript/server/patterns.mjs";

// JSON.parse rounds integers beyond 2^53; whoever asks with one sends {"integer": "<digits>"}.
const revive = (_, value) => (typeof value?.integer === "string" ? BigInt(value.integer) : value);
const { ruleset, evaluations, buckets, splits, patterns } = JSON.parse(readFileSync(0, "utf8"), revive);
const rules = readRuleset(ruleset);

/** What a pattern finds in texts, or the word "refused". */
function searched({ pattern, ignoreCase, texts }) {
  try {
    const finds = compilePattern(pattern, ignoreCase);
    return texts.map((text) => finds(text) ?? null);
  } catch (error) {
    return error instanceof SyntaxError ? "refused" : error.message;
  }
}

const weighted = ({ key, weight }) => ({ variant: key, weight });

process.stdout.write(
  JSON.stringify({
    evaluations: evaluations.map((each) => evaluate(rules, each.flag, each)),
    buckets: buckets.map(({ salt, userId }) => bucket(salt, userId)),
    patterns: patterns.map(searched),
    splits: splits.map(({ salt, userId, weights }) => chooseVariant(weights.map(weighted), salt, userId)),
  }),
);
