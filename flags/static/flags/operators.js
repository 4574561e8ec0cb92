// The operators of a condition, as the server lists them: their words, and the kind of value that each compares with.
import { known } from "../config/elements.js";

/** Groups of `[operator, words, kind of value, whether case matters]`, as a select shows them. */
export const OPERATORS = known("hy-operators", []);

const operators = new Map(OPERATORS.flatMap(([, group]) => group.map(([name, , value, hasCase]) => [name, { value, hasCase }])));

/** What an operator compares with: none, list, networks, text, number, moment, version, segment, or any single value. */
export function valueOf(operator) {
  return operators.get(operator)?.value ?? "any";
}

/** Whether upper and lower case can make a difference to it. */
export function knowsCase(operator) {
  return operators.get(operator)?.hasCase ?? false;
}
