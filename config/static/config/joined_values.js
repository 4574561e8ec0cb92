// Notices that a line of a list counts as one value although it has commas or semicolons. It may be meant so, but pasted
// lists look the same.
import { make } from "./elements.js";

const SEPARATOR = /[,;]/;
const LONGEST_SHOWN = 60;

function shortened(text) {
  return text.length > LONGEST_SHOWN ? `${text.slice(0, LONGEST_SHOWN)}…` : text;
}

function partsOf(line) {
  return line.split(SEPARATOR).map((part) => part.trim()).filter(Boolean);
}

/** Split lines at their commas and semicolons. A list has each value once. */
function split(lines) {
  return [...new Set(lines.flatMap((line) => (SEPARATOR.test(line) ? partsOf(line) : [line])))];
}

function wordsOf(joined) {
  const others = joined.length - 1;
  const first = `“${shortened(joined[0])}”`;
  if (!others) return `${first} counts as one value.`;
  return `${first} and ${others.toLocaleString("en")} other line${others === 1 ? "" : "s"} count as one value each.`;
}

function labelOf(joined) {
  const parts = joined.flatMap(partsOf);
  return parts.length === 1 ? `Change it to “${shortened(parts[0])}”` : `Split into ${parts.length.toLocaleString("en")} values`;
}

/** Make the notice of a list. Its `show(lines)` says which they are; `onsplit` gets the lines that a press makes of them. */
export function joinedNotice(onsplit) {
  const notice = make("div", { class: "hy-joined", role: "status" });
  const show = (lines) => {
    const joined = lines.filter((line) => SEPARATOR.test(line));
    const button = () => make("button", { type: "button", class: "hy-link-button", onclick: () => onsplit(split(lines)) }, labelOf(joined));
    notice.replaceChildren(...(joined.length ? [make("span", {}, wordsOf(joined)), ...(joined.some((line) => partsOf(line).length) ? [button()] : [])] : []));
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
