// Notices about the lines of a list. A line with commas or semicolons counts as one value. It may be meant so, but pasted
// lists look the same. A line in double quotes may stand for a value that has a line break.
import { make } from "./elements.js";
import { isQuoted } from "./lines.js";

const SEPARATOR = /[,;]/;
const LONGEST_SHOWN = 60;

function shortened(text) {
  return text.length > LONGEST_SHOWN ? `${text.slice(0, LONGEST_SHOWN)}…` : text;
}

function isJoined(line) {
  return SEPARATOR.test(line) && !isQuoted(line);
}

function partsOf(line) {
  return line.split(SEPARATOR).map((part) => part.trim()).filter(Boolean);
}

/** Split lines at their commas and semicolons. A list has each value once. */
function split(lines) {
  return [...new Set(lines.flatMap((line) => (isJoined(line) ? partsOf(line) : [line])))];
}

/** Name the first of some lines, and count the others. */
function named(lines) {
  const others = lines.length - 1;
  const more = others ? ` and ${others.toLocaleString("en")} other line${others === 1 ? "" : "s"}` : "";
  return `“${shortened(lines[0])}”${more}`;
}

function wordsOf(joined) {
  return joined.length === 1 ? `${named(joined)} counts as one value.` : `${named(joined)} count as one value each.`;
}

function wordsOfQuoted(quoted) {
  const [are, values] = quoted.length === 1 ? ["is", "this value"] : ["are", "these values"];
  return `${named(quoted)} ${are} in double quotes, because a plain line cannot show ${values}. In the quotes, \\n is a line break.`;
}

function labelOf(joined) {
  const parts = joined.flatMap(partsOf);
  return parts.length === 1 ? `Change it to “${shortened(parts[0])}”` : `Split into ${parts.length.toLocaleString("en")} values`;
}

/** Make the notice of a list. Its `show(lines)` says which they are; `onsplit` gets the lines that a press makes of them. */
export function joinedNotice(onsplit) {
  const notice = make("div", { class: "hy-joined", role: "status" });
  const show = (lines) => {
    const [joined, quoted] = [lines.filter(isJoined), lines.filter(isQuoted)];
    const button = () => make("button", { type: "button", class: "hy-link-button", onclick: () => onsplit(split(lines)) }, labelOf(joined));
    const children = [
      joined.length && make("span", {}, wordsOf(joined)),
      joined.some((line) => partsOf(line).length) && button(),
      quoted.length && make("span", {}, wordsOfQuoted(quoted)),
    ];
    notice.replaceChildren(...children.filter(Boolean));
  };
  return { notice, show };
}

/** Make the notice of a textarea with one value per line, which goes below it. */
export function joinedNoticeOf(area) {
  const { notice, show } = joinedNotice((lines) => {
    area.value = lines.join("\n");
    for (const type of ["input", "change"]) area.dispatchEvent(new Event(type, { bubbles: true }));
    area.focus();
  });
  const update = () => show(area.value.split("\n"));
  area.addEventListener("input", update);
  update();
  return { notice, update };
}
