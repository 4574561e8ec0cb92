// Values as lines of a textarea, or as the text of an input. A value that a plain line cannot show, such as one with a
// line break or of blanks only, is a JSON string in double quotes. `config.admin.forms` does the same.

const BLANK = /^[\s\x1c-\x1f\x85]*$/; // with what Python takes for white space

/** The value of a line in double quotes, or null if it is a plain line. Most lines in double quotes are plain. */
function unquoted(line) {
  if (!line.startsWith('"')) return null;
  try {
    const value = JSON.parse(line);
    return needsQuotes(value) ? value : null;
  } catch {
    return null;
  }
}

function needsQuotes(value) {
  return /[\n\r]/.test(value) || BLANK.test(value) || isQuoted(value);
}

export function isQuoted(line) {
  return unquoted(line) !== null;
}

export function toLine(value) {
  return needsQuotes(value) ? JSON.stringify(value) : value;
}

export function fromLine(line) {
  return unquoted(line) ?? line;
}

/** The text of an input for one value, which unlike a line may be empty. */
export function toInput(value) {
  return value === "" ? "" : toLine(value);
}

export function linesIn(area) {
  return area.value.split("\n").filter((line) => !BLANK.test(line));
}

export function valuesIn(area) {
  return linesIn(area).map(fromLine);
}
