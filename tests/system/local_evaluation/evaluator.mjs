// An evaluator of flags in another language than the service's, written from the guide alone and without packages.
// It reads what `GET /v1/ruleset` answers, asks nothing of the network and keeps no clock.

import { isIPv4, isIPv6 } from "node:net";

const NOTHING = undefined; // what a comparison gives besides true and false

/** What `GET /v1/ruleset` answered, ready to evaluate. */
export function readRuleset({ data }) {
  const byKey = (things) => new Map(things.map((thing) => [thing.key, thing]));
  return { flags: byKey(data.flags), segments: byKey(data.segments) };
}

/** Evaluate a flag of the ruleset for `{userId, attributes, now}`; `now` is a timestamp in ISO 8601. */
export function evaluate(ruleset, key, { userId, attributes = {}, now }) {
  return evaluateFor({ ruleset, userId, attributes, now: parseMoment(now) }, ruleset.flags.get(key));
}

function evaluateFor(context, flag) {
  if (!flag.enabled) return answer(flag, "disabled", flag.offVariant);
  const isMet = (prerequisite) => meetsPrerequisite(context, prerequisite);
  if (!(flag.prerequisites ?? []).every(isMet)) return answer(flag, "prerequisite_failed", flag.offVariant);
  if (flag.rules.length === 0) return answer(flag, "default", flag.defaultVariant);
  const rule = flag.rules.find((each) => takesIn(context, flag, each));
  if (!rule) return answer(flag, "no_rule_match", flag.offVariant);
  const served = rule.type === "experiment" ? servedByExperiment(context, rule) : servedBy(context, flag, rule);
  return typeof served === "boolean" ? { enabled: served, reason: "rule_match" } : answer(flag, "rule_match", served);
}

function answer(flag, reason, variant) {
  const enabled = reason === "rule_match" || reason === "default";
  if (variant === undefined) return { enabled, reason };
  const { value } = flag.variants.find(({ key }) => key === variant);
  const saysItself = reason === "rule_match" && typeof value === "boolean";
  return { enabled: saysItself ? value : enabled, reason, variant, value };
}

function meetsPrerequisite(context, { flag: key, variants }) {
  const flag = context.ruleset.flags.get(key);
  if (!flag) return false;
  const { enabled, variant } = evaluateFor(context, flag);
  return enabled && (!variants || variants.includes(variant));
}

function servedBy(context, flag, rule) {
  if (rule.split) return chooseVariant(rule.split, rule.salt ?? flag.key, unitOf(context, rule));
  return rule.variant ?? flag.defaultVariant;
}

/** The key of a variant or, of a flag without variants, whether it is on. */
function servedByExperiment(context, { experiment, variants, forced = {}, ...audience }) {
  const { userId } = context;
  const split = variants.map(({ key, weight }) => ({ variant: key, weight }));
  const assigned = isInAudience(context, experiment, audience) ? chooseVariant(split, experiment, userId) : variants[0].key;
  const shown = Object.hasOwn(forced, userId) ? forced[userId] : assigned;
  return variants.find(({ key }) => key === shown).serves;
}

// --- rules ---

function isInAudience(context, experiment, { group, conditions = [], percentage = 100 }) {
  const buckets = (share) => Math.round(share * 1_000);
  const place = group && bucket(group.key, context.userId);
  return (
    (!group || (buckets(group.from) <= place && place < buckets(group.to))) &&
    meetsAll(context, conditions) &&
    bucket(experiment, context.userId) < buckets(percentage)
  );
}

function takesIn(context, flag, rule) {
  if (rule.type === "experiment") return true;
  return (
    rule.enabled !== false &&
    isWithin(rule, context.now) &&
    (!rule.userIds || rule.userIds.includes(context.userId)) &&
    (!rule.segment || isMember(context, rule.segment)) &&
    meetsAll(context, rule.conditions ?? []) &&
    isInShareOf(context, flag, rule)
  );
}

function isWithin({ startAt, endAt }, now) {
  return (!startAt || now >= parseMoment(startAt)) && (!endAt || now < parseMoment(endAt));
}

function isMember(context, key) {
  const { userIds = [], conditions = [] } = context.ruleset.segments.get(key) ?? {};
  return userIds.includes(context.userId) || (conditions.length > 0 && meetsAll(context, conditions));
}

function isInShareOf(context, flag, rule) {
  if (rule.percentage === undefined && !rule.ramp && !rule.bucketBy) return true;
  const unit = unitOf(context, rule);
  const threshold = Math.round(shareAt(rule, context.now) * 1_000); // exact: a percentage has at most three decimals
  return unit !== NOTHING && bucket(rule.salt ?? flag.key, unit) < threshold;
}

function shareAt({ percentage, ramp }, now) {
  if (!ramp) return percentage ?? 100;
  return ramp.findLast(({ at }) => now >= parseMoment(at))?.percentage ?? percentage ?? 0;
}

/** What is hashed. To JavaScript 7.0 is an integer as well; those beyond 2^53 are exact only as bigint. */
function unitOf(context, { bucketBy = "userId" }) {
  const unit = attributeOf(context, bucketBy);
  if (typeof unit === "string" && unit !== "") return unit;
  const isInteger = typeof unit === "bigint" || Number.isInteger(unit);
  return isInteger && unit > -(2 ** 64) && unit < 2 ** 64 ? BigInt(unit).toString() : NOTHING;
}

// --- buckets ---

export function bucket(salt, unit) {
  return Math.floor((murmur3(new TextEncoder().encode(`${salt}:${unit}`)) * 100_000) / 2 ** 32);
}

export function chooseVariant(split, salt, unit) {
  const weights = asIntegers(split.map(({ weight }) => weight));
  const place = BigInt(bucket(`${salt}:variant`, unit)) * weights.reduce((sum, weight) => sum + weight);
  let reached = 0n;
  return split[weights.findIndex((weight) => place < 100_000n * (reached += weight))].variant;
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
    hash = (Math.imul(rotate(hash ^ mixed(word(bytes.subarray(at, at + 4))), 13), 5) + 0xe6546b64) | 0;
  }
  hash ^= mixed(word(bytes.subarray(end))) ^ bytes.length;
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}

const word = (bytes) => bytes.reduce((sum, byte, at) => sum | (byte << (8 * at)), 0);
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
  if (name === "userId") return userId;
  return Object.hasOwn(attributes, name) ? attributes[name] : undefined;
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
  const alike = values.filter((value) => kindOf(value) === kindOf(attribute));
  const read = (scalar) => (isText(scalar) ? folded(scalar, ignoreCase) : scalar);
  return alike.length === 0 ? NOTHING : alike.some((value) => order(read(value), read(attribute)) === 0);
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

/**
 * The service reads patterns as RE2 does, this evaluator as RegExp does. They agree on most, but RegExp has no \z, \A, \Q,
 * [[:alpha:]], (?P<name>) and (?i), its \s knows more spaces, its dot more ends of lines, and it may take exponential time.
 * Whoever needs the same takes a binding of RE2.
 */
function matchesPattern(attribute, pattern, { ignoreCase }) {
  if (!isText(attribute) || [...attribute].length > 4_096) return NOTHING;
  return new RegExp(pattern, ignoreCase ? "iu" : "u").test(attribute);
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
  `^v?${NUMBER}(?:\\.${NUMBER})?(?:\\.${NUMBER})?` +
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
  const isIn = ({ size, bits, rest }) => readings.some((each) => each.size === size && each.bits >> rest === bits >> rest);
  return [value].flat().map(readNetwork).some(isIn);
}

function readNetwork(text) {
  const [start, length] = text.split("/");
  const [address, mapped] = readAddress(start);
  const rest = BigInt(address.size - Number(length ?? address.size));
  return { ...(mapped && rest <= 32n ? mapped : address), rest };
}

/** An address as it is written and, where that is one of IPv4 in the form of IPv6, as that of IPv4. Nothing else is one. */
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
