// Patterns of RE2, translated for RegExp. Patterns that RegExp would search for differently are refused.

const LAST = 0x10ffff;
// The classes as pairs: the first and the last character of each range, in the order of characters.
const POSIX = {
  alnum: "09AZaz", alpha: "AZaz", ascii: "\0\x7f", blank: "\t\t  ", cntrl: "\0\x1f\x7f\x7f", digit: "09", graph: "!~",
  lower: "az", print: " ~", punct: "!/:@[`{~", space: "\t\r  ", upper: "AZ", word: "09AZ__az", xdigit: "09AFaf",
};
const PERL = { d: POSIX.digit, s: "\t\n\f\r  ", w: POSIX.word };
const CONTROL = { a: 7, f: 12, n: 10, r: 13, t: 9, v: 11 };
const QUOTED = /\\Q([^]*?)(?:\\E|$)|\\[^]/gu;
const CATEGORIES = /^(C[cfos]?|L[lmotu]?|M[cen]?|N[dlo]?|P[cdefios]?|S[ckmo]?|Z[lps]?)$/;

/** Return a function from a text to whether RE2 finds the pattern in it; it gives undefined where RegExp cannot say. */
export function compilePattern(pattern, ignoreCase = false) {
  const { source, ignoresCase, hasBoundary } = new Translation(pattern, ignoreCase).whole();
  const expression = new RegExp(source, ignoresCase ? "iu" : "u");
  // To RegExp, which ignores case in boundaries too, these two are letters of words: forms of s and k.
  const isUndecided = (text) => ignoresCase && hasBoundary && /[\u017f\u212a]/.test(text);
  return (text) => (!text.isWellFormed() || isUndecided(text) ? undefined : expression.test(text));
}

class Translation {
  constructor(pattern, ignoreCase) {
    this.rest = Array.from(pattern.replace(QUOTED, (found, text) => (text === undefined ? found : escaped(text))));
    this.at = 0;
    this.flags = { i: ignoreCase, m: false, s: false, U: false };
    this.cases = new Set(); // whether letters ignore case; a RegExp has one answer for all of them
  }

  whole() {
    const source = this.alternatives();
    if (this.at < this.rest.length || this.cases.size > 1) throw new SyntaxError("RegExp cannot ignore case in a part");
    return { source, ignoresCase: this.cases.has(true), hasBoundary: this.hasBoundary };
  }

  peek(text) {
    return this.rest.slice(this.at, this.at + text.length).join("") === text;
  }

  take(text) {
    const isNext = this.peek(text);
    if (isNext) this.at += text.length;
    return isNext;
  }

  until(end) {
    const found = this.rest.indexOf(end, this.at);
    if (found < 0) throw new SyntaxError(`There is no ${end}`);
    const text = this.rest.slice(this.at, found).join("");
    this.at = found + 1;
    return text;
  }

  next() {
    if (this.at >= this.rest.length) throw new SyntaxError("The pattern ends too early");
    return this.rest[this.at++];
  }

  alternatives() {
    const outside = { ...this.flags };
    let source = "";
    while (this.at < this.rest.length && !this.peek(")")) source += this.take("|") ? "|" : this.repeated(this.atom());
    this.flags = outside;
    return source;
  }

  repeated(atom) {
    const [repetition] = /^(?:[*+?]|\{\d+(?:,\d*)?\})/.exec(this.rest.slice(this.at, this.at + 12).join("")) ?? [""];
    this.at += repetition.length;
    if (repetition) this.take("?"); // whether a text matches does not depend on greed
    return repetition ? `(?:${atom})${repetition}` : atom;
  }

  atom() {
    const character = this.next();
    if (character === "(") return this.group();
    if (character === "[") return this.class();
    if (character === "\\") return this.escape();
    if (character === ".") return this.flags.s ? "[^]" : "[^\\n]";
    if (character === "^") return this.flags.m ? "(?<=^|\\n)" : "^";
    if (character === "$") return this.flags.m ? "(?=$|\\n)" : "$";
    return this.letter(character.codePointAt(0));
  }

  group() {
    if (this.take("?P<") || (this.peek("?<") && !this.peek("?<=") && !this.peek("?<!"))) this.until(">");
    else if (this.take("?")) return this.groupWithFlags();
    return this.restOfGroup();
  }

  restOfGroup() {
    const source = this.alternatives();
    if (!this.take(")")) throw new SyntaxError("There is no )");
    return `(?:${source})`;
  }

  groupWithFlags() {
    const before = { ...this.flags };
    for (let sets = true; !this.peek(":") && !this.peek(")"); ) {
      const flag = this.next();
      if (flag === "-") sets = false;
      else if (flag in this.flags) this.flags[flag] = sets;
      else throw new SyntaxError(`RegExp has no (?${flag}`);
    }
    if (this.next() === ")") return "";
    const source = this.restOfGroup();
    this.flags = before;
    return source;
  }

  letter(point) {
    const text = String.fromCodePoint(point);
    if (text.toLowerCase() !== text || text.toUpperCase() !== text) this.cases.add(this.flags.i);
    return written(point);
  }

  escape() {
    const character = this.next();
    if (character === "A") return "^";
    if (character === "z") return "$";
    if (character === "b" || character === "B") {
      this.hasBoundary = true;
      return `\\${character}`;
    }
    const named = this.named(character);
    if (!named) return this.letter(this.point(character));
    return `[${named.isNegative ? "^" : ""}${named.source}]`;
  }

  /** The set that an escape names, such as \d or \p{Greek}, if it names one. */
  named(character) {
    const perl = PERL[character.toLowerCase()];
    if (perl) return this.set(ranges(perl), character !== character.toLowerCase());
    if (character !== "p" && character !== "P") return undefined;
    const name = this.take("{") ? this.until("}") : this.next();
    const isNegative = (character === "P") !== name.startsWith("^");
    this.cases.add(this.flags.i);
    return { source: property(name.replace("^", "")), isNegative };
  }

  set(pairs, isNegative) {
    const hasLetters = pairs.some(touchesLetters);
    if (hasLetters) this.cases.add(this.flags.i);
    return { source: writtenRanges(pairs), isNegative, pairs, hasLetters };
  }

  /** The code point that an escape stands for. */
  point(character) {
    if (character in CONTROL) return CONTROL[character];
    if (character === "x") {
      const digits = this.take("{") ? this.until("}") : this.next() + this.next();
      if (!/^[0-9a-f]+$/i.test(digits)) throw new SyntaxError("\\x needs hexadecimal digits");
      return Number.parseInt(digits, 16);
    }
    if (/[0-7]/.test(character)) return this.octal(character);
    if (/[0-9A-Za-z\u0080-\u{10ffff}]/u.test(character)) throw new SyntaxError(`RegExp has no \\${character}`);
    return character.codePointAt(0);
  }

  octal(digits) {
    while (digits.length < 3 && /[0-7]/.test(this.rest[this.at] ?? "")) digits += this.next();
    if (digits.length === 1 && digits !== "0") throw new SyntaxError("RE2 has no backreferences");
    return Number.parseInt(digits, 8);
  }

  class() {
    const isNegative = this.take("^");
    let source = "";
    for (let isFirst = true; isFirst || !this.take("]"); isFirst = false) source += this.member();
    return `[${isNegative ? "^" : ""}${source}]`;
  }

  member() {
    if (this.take("[:")) {
      const name = this.until(":");
      if (!this.take("]")) throw new SyntaxError("There is no :]");
      const pairs = POSIX[name.replace("^", "")] ?? "";
      return this.within(this.set(ranges(pairs), name.startsWith("^")));
    }
    const from = this.next();
    const named = from === "\\" ? this.named(this.rest[this.at++] ?? "") : undefined;
    if (named) return this.within(named);
    if (from === "\\") this.at -= 1;
    const first = this.endpoint(from);
    if (!this.peek("-") || this.rest[this.at + 1] === "]") return this.letters(first, first);
    this.at += 1;
    return this.letters(first, this.endpoint(this.next()));
  }

  endpoint(character) {
    return character === "\\" ? this.point(this.next()) : character.codePointAt(0);
  }

  letters(from, to) {
    if (touchesLetters([from, to])) this.cases.add(this.flags.i);
    return writtenRanges([[from, to]]);
  }

  /** A set among others in brackets, where RegExp has no negation but of properties. */
  within({ source, isNegative, pairs, hasLetters }) {
    if (!isNegative) return source;
    if (this.flags.i && (hasLetters || !pairs)) throw new SyntaxError("RegExp ignores case before it negates");
    return pairs ? writtenRanges(complement(pairs)) : negated(source);
  }
}

const escaped = (text) => Array.from(text, (character) => `\\x{${character.codePointAt(0).toString(16)}}`).join("");

function property(name) {
  if (name === "Any") return writtenRanges([[0, LAST]]);
  if (name === "C") return "\\p{Cc}\\p{Cf}\\p{Co}\\p{Cs}"; // to RE2, code points without a character are none of them
  return CATEGORIES.test(name) ? `\\p{${name}}` : `\\p{Script=${name}}`;
}

function negated(source) {
  if (!/^\\p\{[^}]*\}$/.test(source)) throw new SyntaxError("RegExp cannot negate this in brackets");
  return source.replace("p", "P");
}

function ranges(pairs) {
  const points = Array.from(pairs, (character) => character.codePointAt(0));
  if (points.length === 0) throw new SyntaxError("There is no such class");
  return points.flatMap((point, at) => (at % 2 ? [[points[at - 1], point]] : []));
}

function complement(pairs) {
  const starts = [0, ...pairs.map(([, to]) => to + 1)];
  const ends = [...pairs.map(([from]) => from - 1), LAST];
  return starts.map((start, at) => [start, ends[at]]).filter(([from, to]) => from <= to);
}

const touchesLetters = ([from, to]) => (from <= 0x7a && to >= 0x41) || to > 0x7f;
const written = (point) =>
  /[0-9A-Za-z]/.test(String.fromCodePoint(point)) ? String.fromCodePoint(point) : `\\u{${point.toString(16)}}`;
const writtenRanges = (pairs) => pairs.map(([from, to]) => `${written(from)}-${written(to)}`).join("");
