// The operators of a condition: their words, and what kind of value each compares with.

/** Groups of `[operator, words]`, as a select shows them. */
export const OPERATORS = [
  ["Any value", [
    ["equals", "equals"],
    ["notEquals", "does not equal"],
    ["in", "is one of"],
    ["notIn", "is none of"],
    ["exists", "is known"],
    ["notExists", "is not known"],
  ]],
  ["Text", [
    ["contains", "contains"],
    ["notContains", "does not contain"],
    ["startsWith", "starts with"],
    ["endsWith", "ends with"],
    ["matches", "matches"],
  ]],
  ["Number", [
    ["greaterThan", "is over"],
    ["greaterThanOrEqual", "is at least"],
    ["lessThan", "is under"],
    ["lessThanOrEqual", "is at most"],
  ]],
  ["Time", [
    ["before", "is before"],
    ["after", "is after"],
  ]],
  ["Version", [
    ["semverEquals", "is version"],
    ["semverGreaterThan", "is after version"],
    ["semverGreaterThanOrEqual", "is at least version"],
    ["semverLessThan", "is before version"],
    ["semverLessThanOrEqual", "is at most version"],
  ]],
  ["Network and segment", [
    ["inCidr", "is in network"],
    ["inSegment", "is in segment"],
  ]],
];

const VALUES = {
  exists: "none", notExists: "none",
  in: "list", notIn: "list", inCidr: "networks",
  contains: "text", notContains: "text", startsWith: "text", endsWith: "text", matches: "text",
  greaterThan: "number", greaterThanOrEqual: "number", lessThan: "number", lessThanOrEqual: "number",
  before: "moment", after: "moment",
  inSegment: "segment",
};
const FOLDING = ["equals", "notEquals", "in", "notIn", "contains", "notContains", "startsWith", "endsWith", "matches"];

/** What an operator compares with: none, list, networks, text, number, moment, version, segment, or any single value. */
export function valueOf(operator) {
  return VALUES[operator] ?? (operator?.startsWith("semver") ? "version" : "any");
}

/** Whether upper and lower case can make a difference to it. */
export function knowsCase(operator) {
  return FOLDING.includes(operator);
}
