"""The records of a file, each as a JSON object.

A line of NDJSON is such an object. A row of CSV becomes one by the names of its columns.
"""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from config.api.bodies import check, decode
from config.csv_cells import unescape
from config.errors import DomainError, ErrorCode
from events.imports.files import LONGEST_LINE, File, FileRefused

MOST_LINES = 100
"""The most lines of one CSV row, by line breaks within quotes. More mean that a quote is not
closed.
"""
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_number = re.compile(r"-?(0|[1-9]\d{0,17})(\.\d+)?([eE][+-]?\d{1,3})?")


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a CSV file: required ones, optional ones, and `rest` for other properties as a
    JSON object.

    A single property may also have its own column, `<rest>.<name>`. There, a JSON number, `true` or
    `false` is read as such, unless the name is in `texts`. Columns in `ignored` are not read.
    """

    required: Sequence[str]
    optional: Sequence[str]
    rest: str
    texts: Sequence[str] = ()
    ignored: Sequence[str] = ()

    def part_of(self, column: str) -> str | None:
        """Return `<name>` if this is a column `<rest>.<name>`."""
        prefix = f"{self.rest}."
        return column.removeprefix(prefix) if column.startswith(prefix) and column != prefix else None

    def has(self, column: str) -> bool:
        names = (*self.required, *self.optional, self.rest, *self.ignored)
        return column in names or self.part_of(column) is not None


@dataclass(frozen=True, slots=True)
class Record:
    """A record that begins in a line, and ends in `until` if that is another one. `problem` says
    why it is invalid.
    """

    line: int
    document: bytes = b""
    problem: str = ""
    until: int = 0


def records(file: File, columns: Columns, on_progress: Callable[[int], object]) -> Iterator[Record]:
    """Yield the records of a file in order. Raises FileRefused if the file as a whole cannot be
    read.
    """
    lines = _without_byte_order_mark(file.lines(on_progress))
    return _of_table(lines, columns) if file.form == "csv" else _of_lines(lines)


def _without_byte_order_mark(lines: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the lines without the byte order mark that some programs write before UTF-8."""
    for first in lines:
        yield first.removeprefix(_BYTE_ORDER_MARK)
        break
    yield from lines


def _of_lines(lines: Iterable[bytes]) -> Iterator[Record]:
    for number, line in enumerate(lines, 1):
        if len(line) > LONGEST_LINE:
            yield Record(number, problem=f"Must be at most {LONGEST_LINE:,} bytes long.")
        elif text := line.strip():
            yield Record(number, text)


def _of_table(lines: Iterable[bytes], columns: Columns) -> Iterator[Record]:
    rows = _Rows(lines)
    try:
        header = next(rows, None)
    except csv.Error as error:
        raise FileRefused(f"Its first line, which must name the columns, cannot be read ({error}).") from error
    if header is None:
        raise FileRefused("It is empty; its first line must name the columns.")
    _check_header(header, columns)
    while True:
        document, problem = b"", ""
        try:
            row = next(rows, None)
            if row is None:
                return
            if not row:
                continue
            document = _document(header, [*map(unescape, row)], columns)
        except (csv.Error, _Unreadable) as error:
            problem = f"{str(error).rstrip('.')}."
        yield Record(rows.first, document, problem, until=rows.last if rows.last > rows.first else 0)


class _Rows:
    """Iterates over the rows of a table. Raises csv.Error for an invalid row, and can then continue
    with the next.

    An unclosed quote would silently swallow all lines up to the next quote. So FileRefused is
    raised for a row that is invalid or too long over several lines.
    """

    def __init__(self, lines: Iterable[bytes]) -> None:
        self.first = 1
        self._reader = csv.reader(self._decoded(lines), strict=True)

    @property
    def last(self) -> int:
        return self._reader.line_num

    def __iter__(self) -> Iterator[list[str]]:
        return self

    def __next__(self) -> list[str]:
        self.first = self.last + 1
        try:
            return next(self._reader)
        except csv.Error as error:
            if self.last > self.first:
                raise self._refusal(f"on to line {self.last:,} and cannot be read ({error})") from error
            raise

    def _decoded(self, lines: Iterable[bytes]) -> Iterator[str]:
        for number, line in enumerate(lines, 1):
            if number >= self.first + MOST_LINES:
                raise self._refusal(f"over more than {MOST_LINES} lines")
            # Bytes that are not UTF-8 become lone surrogates, which JSON cannot contain.
            yield line.decode(errors="surrogateescape")

    def _refusal(self, how_far: str) -> FileRefused:
        return FileRefused(f"The row in line {self.first:,} runs {how_far}: a quote in it is not closed.")


def message_of(error: DomainError) -> str:
    """Return what is wrong with a record. Messages of the API about invalid JSON speak of a body
    instead.
    """
    if error.code is ErrorCode.MALFORMED_JSON:
        return f"{error.message.replace('The body is', 'It is').partition(';')[0]}."
    return error.message


class _Unreadable(Exception):
    """A row is not a valid record; the message gives the reason."""


def _check_header(header: Sequence[str], columns: Columns) -> None:
    if missing := [name for name in columns.required if name not in header]:
        raise FileRefused(f"Its first line must name these columns too: {', '.join(missing)}.")
    if twice := sorted({name for name in header if header.count(name) > 1}):
        raise FileRefused(f"Its first line names columns twice: {', '.join(twice)}.")
    if unknown := [repr(name) for name in header if not columns.has(name)]:
        allowed = ", ".join((*columns.required, *columns.optional, columns.rest, f"{columns.rest}.<name>"))
        raise FileRefused(f"Its first line names unknown columns: {', '.join(unknown)}; it may name {allowed}.")


def _document(header: Sequence[str], row: Sequence[str], columns: Columns) -> bytes:
    if len(row) != len(header):
        raise _Unreadable(f"The row has {len(row)} cells, but the first line names {len(header)} columns")
    cells = {name: cell for name, cell in zip(header, row, strict=True) if name not in columns.ignored}
    document: dict[str, Any] = {
        name: cells[name]
        for name in (*columns.required, *columns.optional)
        if name in columns.required or cells.get(name)
    }
    if rest := _rest(cells, columns):
        document[columns.rest] = rest
    try:
        return orjson.dumps(document)
    except orjson.JSONEncodeError:
        raise _Unreadable("It is not valid UTF-8") from None


def _rest(cells: Mapping[str, str], columns: Columns) -> dict[str, Any]:
    """Return the properties from the column `<rest>` and from columns `<rest>.<name>`, without
    empty cells.
    """
    properties = _object(cells[columns.rest], columns.rest) if cells.get(columns.rest) else {}
    for column, cell in cells.items():
        name = columns.part_of(column)
        if name is not None and cell:
            properties[name] = cell if name in columns.texts else _value(cell, column)
    return properties


def _object(cell: str, column: str) -> dict[str, Any]:
    try:
        value = check(decode(cell.encode()))
    except UnicodeEncodeError:
        raise _Unreadable("It is not valid UTF-8") from None
    except DomainError as error:
        raise _Unreadable(f"{column}: {message_of(error)}") from None
    if not isinstance(value, dict):
        raise _Unreadable(f"{column}: Must be a JSON object")
    return value


def _value(cell: str, column: str) -> Any:
    if cell in ("true", "false"):
        return cell == "true"
    if not _number.fullmatch(cell):
        return cell
    number = json.loads(cell)
    if not math.isfinite(number):
        raise _Unreadable(f"{column}: Must be a finite number")
    return number
