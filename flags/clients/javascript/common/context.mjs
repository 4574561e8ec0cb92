// The evaluation context of OpenFeature, as the service accepts it.

const MAX_LEVELS = 8;
const MAX_KEY_LENGTH = 200;
const INVALID = /[\0\p{Surrogate}]/u; // lone surrogates

/** An error with one of OpenFeature's codes, such as INVALID_CONTEXT. */
export function failure(code, message) {
  return Object.assign(new Error(message), { code });
}

/** Return `{userId, attributes}` as JSON, copied from the context. Throws INVALID_CONTEXT. */
export function readContext(context) {
  try {
    const { targetingKey, ...attributes } = context ?? {};
    const userId = targetingKey ?? "";
    if (typeof userId !== "string") throw new Error("targetingKey must be a string");
    if (!isText(userId, MAX_KEY_LENGTH)) throw new Error(`targetingKey must be a text of up to ${MAX_KEY_LENGTH} characters`);
    return { userId, attributes: plain(attributes, 1) };
  } catch (error) {
    throw failure("INVALID_CONTEXT", `The evaluation context cannot be sent: ${error.message}.`);
  }
}

/** Whether a value is a string that the service accepts: not too long, and valid in Unicode. */
export function isText(value, longest) {
  return typeof value === "string" && (value.length <= longest || [...value].length <= longest) && !INVALID.test(value);
}

/** Return a value as JSON. A value that contains itself has too many levels. */
export function plain(given, level = 1) {
  const value = typeof given?.toJSON === "function" && !(given instanceof Date) ? given.toJSON() : given;
  if (typeof value === "bigint") throw new Error("it has a bigint; use a number or a string");
  if (typeof value === "number") return Number.isFinite(value) ? value : null;
  if (typeof value === "function" || typeof value === "symbol") return undefined;
  if (typeof value !== "object" || value === null) return value;
  if (value instanceof Date) return value.toISOString();
  if (level > MAX_LEVELS) throw new Error(`it has more than ${MAX_LEVELS} levels, or contains itself`);
  if (Array.isArray(value)) return value.map((each) => plain(each, level + 1));
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, plain(each, level + 1)]));
}
