// An evaluator of flags, written from the guide alone and without packages. It reads what `GET /v1/ruleset` answers,
// asks nothing of the network and keeps no clock.

import { isIPv4, isIPv6 } from "node:net";

import { compilePattern } from "./patterns.mjs";

const NOTHING = undefined; // what a comparison gives besides true and false

/** What `GET /v1/ruleset` answered, ready to evaluate. `warn` gets a sentence for each pattern that RegExp lacks. */
export function readRuleset({ data }, warn = console.warn) {
  const byKey = (things) => new Map(things.map((thing) => [thing.key, withUserIds(thing)]));
  const flags = data.flags.map((flag) => ({ ...flag, rules: flag.rules.map(ready) }));
  const { environment, revision } = data;
  return { environment, revision, flags: byKey(flags), segments: byKey(data.segments), patterns: new Map(), warn };
}

/** A rule with its index, its moments, its ranges or the group of its experiment, and the split of its experiment. */
function ready(rule, index) {
  const { startAt, endAt, ramp, ranges = [], group } = rule;
  const moments = { startAt: parseMoment(startAt), endAt: parseMoment(endAt) };
  const steps = ramp?.map(({ at, percentage }) => ({ at: parseMoment(at), percentage }));
  const hashed = group ? [{ ...group, salt: group.key }] : ranges;
  const arms = rule.type === "experiment" && rule.variants.map(({ key, weight }) => ({ variant: key, weight }));
  return { ...withUserIds(rule), index, ...moments, ramp: steps, hashed, arms };
}

const withUserIds = (thing) => (thing.userIds ? { ...thing, userIds: new Set(thing.userIds) } : thing);

/** Evaluate a flag of the ruleset for `{userId, attributes, now}`; `now` is a timestamp in ISO 8601. */
export function evaluate(ruleset, key, user) {
  return resolve(ruleset, key, user).answer;
}

/**
 * The `answer` of `evaluate`; the `rule` that matched, with its index; whether a share or a split decided; and, where
 * an experiment's rule did, the user's part in it. Throws TARGETING_KEY_MISSING if only the hash of a user id can
 * decide, and there is no user id.
 */
export function resolve(ruleset, key, { userId, attributes = {}, now }) {
  const moment = typeof now === "bigint" ? now : parseMoment(now);
  const context = { ruleset, userId, attributes, now: moment };
  const flag = ruleset.flags.get(key);
  const decided = decide(context, flag);
  decided.isSplit = isDecidedByShare(context, flag, decided);
  return decided;
}

function isDecidedByShare(context, flag, { answer: { reason }, rule }) {
  if (reason === "disabled" || reason === "prerequisite_failed") return false;
  const passed = rule ? flag.rules.slice(0, rule.index) : flag.rules;
  return Boolean(rule && hasSplit(rule)) || passed.some((each) => isOnlyOutsideShare(context, each));
}

function decide(context, flag) {
  if (!flag.enabled) return { answer: answer(flag, "disabled", flag.offVariant) };
  const isMet = (prerequisite) => meetsPrerequisite(context, prerequisite);
  if (!(flag.prerequisites ?? []).every(isMet)) return { answer: answer(flag, "prerequisite_failed", flag.offVariant) };
  const rule = flag.rules.find((each) => takesIn(context, flag, each));
  if (!rule) {
    const hasRules = flag.rules.some(({ type }) => type !== "experiment");
    const [reason, variant] = hasRules ? ["no_rule_match", flag.offVariant] : ["default", flag.defaultVariant];
    return { answer: answer(flag, reason, variant) };
  }
  if (rule.type === "experiment") return servedByExperiment(context, flag, rule);
  return { answer: answer(flag, "rule_match", servedBy(context, flag, rule)), rule };
}

/** `variant` is the key of a variant or, of a flag without variants, whether a rule serves it as on. */
function answer(flag, reason, variant) {
  const enabled = reason === "rule_match" || reason === "default";
  if (typeof variant === "boolean") return { enabled: variant, reason };
  if (variant === undefined) return { enabled, reason };
  const { value } = flag.variants.find(({ key }) => key === variant);
  const saysItself = reason === "rule_match" && typeof value === "boolean";
  return { enabled: saysItself ? value : enabled, reason, variant, value };
}

function meetsPrerequisite(context, { flag: key, variants }) {
  const flag = context.ruleset.flags.get(key);
  if (!flag) return false;
  const { enabled, variant } = decide(context, flag).answer;
  return enabled && (!variants || variants.includes(variant));
}

function servedBy(context, flag, rule) {
  if (rule.split) {
    const unit = unitOf(context, rule);
    if (unit === NOTHING) throw missingKey(); // any other unit is known: the share has hashed it
    return chooseVariant(rule.split, rule.salt ?? flag.key, unit);
  }
  return rule.serves === false ? false : (rule.variant ?? flag.defaultVariant);
}

function servedByExperiment({ userId }, flag, rule) {
  const { experiment, variants, arms, forced = {} } = rule;
  const served = (key) => answer(flag, "rule_match", variants.find((variant) => variant.key === key).serves);
  if (!userId) return { answer: servedToAnonymous(served, variants), rule };
  if (Object.hasOwn(forced, userId)) {
    const variant = forced[userId];
    return { answer: served(variant), rule, participation: { variant } };
  }
  const variant = chooseVariant(arms, experiment, userId);
  return { answer: served(variant), rule, participation: { variant, inExperiment: true } };
}

/** What all users of the audience get. */
function servedToAnonymous(served, variants) {
  const possible = variants.filter(({ weight }) => weight);
  const answers = possible.map(({ key }) => JSON.stringify(served(key)));
  if (new Set(answers).size > 1) throw missingKey();
  return served(possible[0].key);
}

/** A share or a split by the user id cannot be decided without one. */
function missingKey() {
  const message = "This flag is on for a share of the users, which a targeting key decides; give one.";
  return Object.assign(new Error(message), { code: "TARGETING_KEY_MISSING" });
}

// --- rules ---

function takesIn(context, flag, rule) {
  if (rule.type === "experiment" && Object.hasOwn(rule.forced ?? {}, context.userId)) return true;
  return isAimedAt(context, rule) && isInShareOf(context, flag, rule);
}

/** Whether the rule would match the user but for its share and its ranges. */
function isAimedAt(context, rule) {
  return (
    rule.enabled !== false &&
    isWithin(rule, context.now) &&
    (!rule.userIds || rule.userIds.has(context.userId)) &&
    (!rule.segment || isMember(context, rule.segment)) &&
    meetsAll(context, rule.conditions ?? [])
  );
}

function isOnlyOutsideShare(context, rule) {
  const hasUnit = (rule.bucketBy ?? "userId") === "userId" || unitOf(context, rule) !== NOTHING;
  return hasShare(rule) && hasUnit && isAimedAt(context, rule);
}

const hasShare = ({ percentage = 100, ramp, bucketBy, ranges, group }) =>
  percentage !== 100 || (ramp ?? bucketBy ?? ranges ?? group) !== undefined;
const hasSplit = (rule) => ["percentage", "experiment"].includes(rule.type) || hasShare(rule) || Boolean(rule.split);

function isWithin({ startAt, endAt }, now) {
  return (startAt === undefined || now >= startAt) && (endAt === undefined || now < endAt);
}

function isMember(context, key) {
  const { userIds = new Set(), conditions = [] } = context.ruleset.segments.get(key) ?? {};
  return userIds.has(context.userId) || (conditions.length > 0 && meetsAll(context, conditions));
}

function isInShareOf(context, flag, rule) {
  if (!hasShare(rule)) return true;
  const unit = unitOf(context, rule);
  if (unit === NOTHING && (rule.bucketBy ?? "userId") !== "userId") return false;
  const share = { salt: rule.experiment ?? rule.salt ?? flag.key, from: 0, to: shareAt(rule, context.now) };
  const found = [share, ...rule.hashed].map((range) => isInRange(range, unit));
  if (found.includes(false)) return false;
  if (found.includes(NOTHING)) throw missingKey();
  return true;
}

/** Returns NOTHING if the result depends on the hash of a user id, and there is no user id. */
function isInRange({ salt, from, to }, unit) {
  const [start, end] = [from, to].map((percentage) => Math.round(percentage * 1_000)); // exact: three decimals at most
  if (unit === NOTHING) return start < end && (end - start === 100_000 || NOTHING);
  const place = bucket(salt, unit);
  return start <= place && place < end;
}

function shareAt({ percentage, ramp }, now) {
  if (!ramp) return percentage ?? 100;
  return ramp.findLast(({ at }) => now >= at)?.percentage ?? percentage ?? 0;
}

/** What is hashed. To JavaScript 7.0 is an integer as well; those beyond 2^53 are exact only as bigint. */
function unitOf(context, { bucketBy = "userId" }) {
  const unit = attributeOf(context, bucketBy);
  if (typeof unit === "string" && unit !== "") return unit;
  const isInteger = typeof unit === "bigint" || Number.isInteger(unit);
  return isInteger && unit > -(2 ** 64) && unit < 2 ** 64 ? BigInt(unit).toString() : NOTHING;
}

// --- buckets ---

const encoder = new TextEncoder();

export function bucket(salt, unit) {
  return Math.floor((murmur3(encoder.encode(`${salt}:${unit}`)) * 100_000) / 2 ** 32);
}

export function chooseVariant(split, salt, unit) {
  const ends = boundsOf(split);
  const place = BigInt(bucket(`${salt}:variant`, unit)) * (ends.at(-1) / 100_000n);
  return split[ends.findIndex((end) => place < end)].variant;
}

const bounds = new WeakMap();

/** Where the share of each variant ends, for buckets times the sum of all weights. */
function boundsOf(split) {
  if (!bounds.has(split)) {
    let reached = 0n;
    bounds.set(split, asIntegers(split.map(({ weight }) => weight)).map((weight) => 100_000n * (reached += weight)));
  }
  return bounds.get(split);
}

/** Decimals, as they are written, on one scale on which they are integers. */
function asIntegers(numbers) {
  const parts = numbers.map((number) => {
    const [, whole, fraction = "", exponent = "0"] = /^(\d+)(?:\.(\d+))?(?:e(.+))?$/.exec(number);
    return { digits: BigInt(whole + fraction), decimals: fraction.length - Number(exponent) };
  });
  const most = Math.max(...parts.map(({ decimals }) => decimals));
  return parts.map(({ digits, decimals }) => digits * 10n ** BigInt(most - decimals));
}

/** MurmurHash3 x86 with 32 bits and seed 0. */
function murmur3(bytes) {
  const end = bytes.length & ~3;
  let hash = 0;
  for (let at = 0; at < end; at += 4) {
    hash = (Math.imul(rotate(hash ^ mixed(word(bytes, at)), 13), 5) + 0xe6546b64) | 0;
  }
  hash ^= mixed(word(bytes, end)) ^ bytes.length;
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}

/** Four bytes, or what is left of them: bytes after the end are undefined, which shifts as 0. */
const word = (bytes, at) => bytes[at] | (bytes[at + 1] << 8) | (bytes[at + 2] << 16) | (bytes[at + 3] << 24);
const mixed = (block) => Math.imul(rotate(Math.imul(block, 0xcc9e2d51), 15), 0x1b873593);
const rotate = (number, bits) => (number << bits) | (number >>> (32 - bits));

// --- conditions ---

const AFFIRMATIVE = { notEquals: "equals", notIn: "in", notContains: "contains", notExists: "exists" };
const meetsAll = (context, conditions) => conditions.every((condition) => meets(context, condition));

function meets(context, condition) {
  const operator = AFFIRMATIVE[condition.operator] ?? condition.operator;
  const found = compare(context, operator, condition);
  const isNegative = operator !== condition.operator;
  return found !== NOTHING && found !== (isNegative !== (condition.negate ?? false));
}

function compare(context, operator, condition) {
  if (operator === "inSegment") return isMember(context, condition.value);
  const attribute = attributeOf(context, condition.attribute);
  if (operator === "exists") return attribute !== undefined && attribute !== null;
  const compareOne = (each) => COMPARISONS[operator](each, condition.value, condition, context);
  return Array.isArray(attribute) ? compareAny(attribute, compareOne) : compareOne(attribute);
}

function compareAny(list, compareOne) {
  if (list.length > 1_000) return NOTHING;
  const found = list.map(compareOne);
  if (found.includes(true)) return true;
  return found.includes(false) || list.length === 0 ? false : NOTHING;
}

function attributeOf({ userId, attributes }, name) {
  return name === "userId" ? userId || undefined : lookUp(attributes, name, 8);
}

/** `a.b` is the property of that name, else `b` within the object `a`, up to so many objects deep. */
function lookUp(holder, name, levels) {
  if (Object.hasOwn(holder, name)) return holder[name];
  const [first, ...rest] = name.split(".");
  const inner = rest.length > 0 && levels > 1 && Object.hasOwn(holder, first) ? holder[first] : undefined;
  const isObject = typeof inner === "object" && inner !== null && !Array.isArray(inner);
  return isObject ? lookUp(inner, rest.join("."), levels - 1) : undefined;
}

const order = (one, other) => (one < other ? -1 : one > other ? 1 : 0);
const isText = (value) => typeof value === "string";
const kindOf = (value) => (typeof value === "bigint" ? "number" : typeof value);

const numbers = ordered((each) => (kindOf(each) === "number" ? each : NOTHING));
const moments = ordered(parseMoment, order, (text, now) => parseDistance(text, now) ?? parseMoment(text));
const versions = ordered(parseVersion, orderOfVersions);

const COMPARISONS = {
  equals: (attribute, value, condition) => isOneOf(attribute, [value], condition),
  in: isOneOf,
  contains: texts((text, part) => text.includes(part)),
  startsWith: texts((text, part) => text.startsWith(part)),
  endsWith: texts((text, part) => text.endsWith(part)),
  matches: matchesPattern,
  greaterThan: numbers((sign) => sign > 0),
  greaterThanOrEqual: numbers((sign) => sign >= 0),
  lessThan: numbers((sign) => sign < 0),
  lessThanOrEqual: numbers((sign) => sign <= 0),
  before: moments((sign) => sign < 0),
  after: moments((sign) => sign > 0),
  semverEquals: versions((sign) => sign === 0),
  semverGreaterThan: versions((sign) => sign > 0),
  semverGreaterThanOrEqual: versions((sign) => sign >= 0),
  semverLessThan: versions((sign) => sign < 0),
  semverLessThanOrEqual: versions((sign) => sign <= 0),
  inCidr: isInNetworks,
};

function ordered(read, orderOf = order, readValue = read) {
  return (holds) =>
    (attribute, value, _, { now }) => {
      const found = read(attribute);
      return found === NOTHING ? NOTHING : holds(orderOf(found, readValue(value, now)));
    };
}

function isOneOf(attribute, values, { ignoreCase }) {
  const kind = kindOf(attribute);
  const read = (scalar) => (isText(scalar) && ignoreCase ? folded(scalar, true) : scalar);
  const wanted = read(attribute);
  let result = NOTHING;
  for (const value of values) {
    if (kindOf(value) !== kind) continue;
    if (order(read(value), wanted) === 0) return true;
    result = false;
  }
  return result;
}

function texts(holds) {
  return (attribute, value, { ignoreCase }) =>
    isText(attribute) ? holds(folded(attribute, ignoreCase), folded(value, ignoreCase)) : NOTHING;
}

/** Unicode's case folding, which JavaScript lacks, by way of its other conversions: the same but for the dotless i. */
function folded(text, ignoreCase) {
  const fold = (character) => (character === "ı" ? character : character.toLowerCase().toUpperCase().toLowerCase());
  return ignoreCase ? Array.from(text, fold).join("") : text;
}

/** The service uses RE2. A pattern that RegExp would search for differently returns NOTHING. */
function matchesPattern(attribute, pattern, { ignoreCase = false }, { ruleset }) {
  if (!isText(attribute) || isLong(attribute)) return NOTHING;
  return patternOf(ruleset, pattern, ignoreCase)(attribute);
}

const isLong = (text) => text.length > 4_096 && [...text].length > 4_096; // code points

/** The compiled pattern, made once for a ruleset, which also says once what is wrong with it. */
function patternOf({ patterns, warn }, pattern, ignoreCase) {
  const name = `${ignoreCase}:${pattern}`;
  if (!patterns.has(name)) patterns.set(name, attempt(pattern, ignoreCase, warn));
  return patterns.get(name);
}

function attempt(pattern, ignoreCase, warn) {
  try {
    return compilePattern(pattern, ignoreCase);
  } catch ({ message }) {
    warn(`Conditions with the pattern ${pattern} match nobody here, because RegExp cannot search for it: ${message}`);
    return () => NOTHING;
  }
}

// --- moments, in microseconds ---

const MOMENT =
  /^(\d{4}-\d\d-\d\d)(?:[Tt ](\d\d:\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?(?:[Zz]|([+-])(\d\d)(?::?([0-5]\d))?)?)?$/;
const [FIRST, END] = ["0001-01-01", "+010000-01-01"].map((date) => BigInt(Date.parse(date)) * 1_000n);
const SECONDS = { s: 1n, m: 60n, h: 3_600n, d: 86_400n, w: 604_800n };

function parseMoment(text) {
  const found = isText(text) && MOMENT.exec(text.trim());
  if (!found) return NOTHING;
  const [, date, time = "00:00", seconds = "00", fraction = "", sign = "+", hours = "0", minutes = "0"] = found;
  // A leap second is the first second of the next minute.
  const [second, leap] = seconds === "60" ? ["59", 1_000n] : [seconds, 0n];
  const written = new Date(`${date}T${time}:${second}Z`);
  if (Number.isNaN(written.getTime()) || !written.toISOString().startsWith(date) || hours > 23) return NOTHING;
  const offset = BigInt(`${sign}1`) * (BigInt(hours) * 60n + BigInt(minutes)) * 60_000_000n;
  const moment = (BigInt(written.getTime()) + leap) * 1_000n + BigInt(fraction.padEnd(6, "0").slice(0, 6)) - offset;
  return moment >= FIRST && moment < END ? moment : NOTHING;
}

function parseDistance(text, now) {
  const [, count, unit] = /^([+-]\d{1,5})([smhdw])$/.exec(text) ?? [];
  return unit && now + BigInt(count) * SECONDS[unit] * 1_000_000n;
}

// --- semantic versions ---

const NUMBER = "(0|[1-9]\\d{0,17})";
const IDENTIFIER = "(?:0|[1-9]\\d*|\\d*[A-Za-z-][0-9A-Za-z-]*)";
const VERSION = new RegExp(
  `^[vV]?${NUMBER}(?:\\.${NUMBER})?(?:\\.${NUMBER})?` +
    `(?:-(${IDENTIFIER}(?:\\.${IDENTIFIER})*))?(?:\\+[0-9A-Za-z-]+(?:\\.[0-9A-Za-z-]+)*)?$`,
);

function parseVersion(text) {
  const found = isText(text) && text.length <= 256 && VERSION.exec(text);
  if (!found) return NOTHING;
  const [, major, minor = "0", patch = "0", prerelease] = found;
  const identifiers = prerelease?.split(".").map((part) => (/^\d+$/.test(part) ? BigInt(part) : part));
  return [...[major, minor, patch].map(BigInt), identifiers ? 0n : 1n, ...(identifiers ?? [])];
}

function orderOfVersions(one, other) {
  const at = one.findIndex((part, index) => part !== other[index]);
  if (at < 0 || at >= other.length) return order(one.length, other.length);
  if (typeof one[at] !== typeof other[at]) return isText(one[at]) ? 1 : -1;
  return order(one[at], other[at]);
}

// --- networks ---

function isInNetworks(attribute, value) {
  const readings = isText(attribute) ? readAddress(attribute) : [];
  if (readings.length === 0) return NOTHING;
  const isIn = ({ size, bits, rest }) =>
    readings.some((each) => each.size === size && each.bits >> rest === bits >> rest);
  return [value].flat().map(readNetwork).some(isIn);
}

function readNetwork(text) {
  const [start, length] = text.split("/");
  const [address, mapped] = readAddress(start);
  const rest = BigInt(address.size - Number(length ?? address.size));
  return { ...(mapped && rest <= 32n ? mapped : address), rest };
}

/** An address as it is written and, where that is one of IPv4 in the form of IPv6, as that of IPv4. */
function readAddress(text) {
  if (isIPv4(text)) return [{ size: 32, bits: text.split(".").reduce((sum, part) => (sum << 8n) + BigInt(part), 0n) }];
  if (!isIPv6(text)) return [];
  const [, high, low] = /^(.*?)([\d.]*\.[\d.]+)?(?:%.*)?$/.exec(text);
  const [head, end] = `${high}${low ? "0:0" : ""}`.split("::").map((half) => half.split(":").filter(Boolean));
  const groups = end ? [...head, ...Array(8 - head.length - end.length).fill("0"), ...end] : head;
  const bits = groups.reduce((sum, group) => (sum << 16n) + BigInt(`0x${group}`), 0n);
  const address = { size: 128, bits: low ? bits + readAddress(low)[0].bits : bits };
  return address.bits >> 32n === 0xffffn ? [address, { size: 32, bits: address.bits & 0xffff_ffffn }] : [address];
}
