// Inputs for points in time, which are stored as ISO 8601 in UTC. Values that are not edited keep their format.
import { textInput } from "./elements.js";

/** The value of an `<input type="datetime-local">`, in UTC; null if the text is not a point in time. */
export function toLocal(text) {
  const moment = new Date(/([zZ]|[+-]\d\d:?\d\d)$/.test(text) ? text : `${text}Z`);
  if (Number.isNaN(moment.getTime())) return null;
  const iso = moment.toISOString();
  return iso.length > 24 ? null : iso.slice(0, moment.getUTCMilliseconds() ? 23 : moment.getUTCSeconds() ? 19 : 16);
}

/** Whether a point in time has more digits than browsers edit, which are milliseconds. */
function isFiner(text) {
  return /[.,]\d{3}\d*[1-9]/.test(text);
}

export function fromLocal(text) {
  if (!text) return "";
  return text.length === 16 ? `${text}:00Z` : `${text}Z`;
}

/** A control for a point in time. A stored value that is invalid, or has microseconds, is shown as text. */
export function momentInput(value, attributes, onvalue) {
  const local = value ? toLocal(value) : "";
  if (local === null || isFiner(value)) {
    const text = textInput(String(value), { ...attributes, "data-moment": "" }, () => onvalue(text.value));
    return text;
  }
  const step = { 23: "any", 19: 1 }[local.length] ?? 60;
  const input = textInput(local, { ...attributes, type: "datetime-local", step }, () => onvalue(fromLocal(input.value)));
  return input;
}

/** A point in time in words, such as `1 Mar 2026, 10:00 UTC`. */
export function inWords(text) {
  const local = toLocal(text);
  if (local === null) return text;
  const day = new Date(`${local.slice(0, 10)}T00:00Z`).toLocaleDateString("en-GB", { day: "numeric", month: "short", year: "numeric", timeZone: "UTC" });
  return `${day}, ${local.slice(11, 16)} UTC`;
}
