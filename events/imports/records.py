"""The records of a file, each as the JSON of one object.

A line of NDJSON is one as it stands, a row of CSV is put together by the names of its columns.
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
from config.errors import DomainError, ErrorCode
from events.imports.files import LONGEST_LINE, File, FileRefused

MOST_LINES = 100
"""That a row of a table may run over, within quotes. More means that a quote does not close where
it should.
"""
_MARK = b"\xef\xbb\xbf"
_number = re.compile(r"-?(0|[1-9]\d{0,17})(\.\d+)?([eE][+-]?\d{1,3})?")


@dataclass(frozen=True, slots=True)
class Columns:
    """Which a table has: those that it must, those that it may, and one for anything besides, as a
    JSON object.

    Of that one there are also columns of single names: `<rest>.<name>`. In these, what is written
    as a JSON number, `true` or `false` is one, unless the name is among `texts`. What is `ignored`
    is not read.
    """

    required: Sequence[str]
    optional: Sequence[str]
    rest: str
    texts: Sequence[str] = ()
    ignored: Sequence[str] = ()

    def part_of(self, column: str) -> str | None:
        """The name within the rest, if it is such a column."""
        prefix = f"{self.rest}."
        return column.removeprefix(prefix) if column.startswith(prefix) and column != prefix else None

    def are_known(self, column: str) -> bool:
        known = (*self.required, *self.optional, self.rest, *self.ignored)
        return column in known or self.part_of(column) is not None


@dataclass(frozen=True, slots=True)
class Record:
    """What stands from a line on, `until` another one at times; where it cannot be read, `problem`
    says why.
    """

    line: int
    document: bytes = b""
    problem: str = ""
    until: int = 0


def records(file: File, columns: Columns, on_progress: Callable[[int], object]) -> Iterator[Record]:
    """All records of a file, in their order. Raises FileRefused where the file as a whole makes no
    sense.
    """
    lines = _without_mark(file.lines(on_progress))
    return _of_table(lines, columns) if file.form == "csv" else _of_lines(lines)


def _without_mark(lines: Iterator[bytes]) -> Iterator[bytes]:
    """Without the mark that some programs put before UTF-8."""
    for first in lines:
        yield first.removeprefix(_MARK)
        break
    yield from lines


def _of_lines(lines: Iterable[bytes]) -> Iterator[Record]:
    for number, line in enumerate(lines, 1):
        if len(line) > LONGEST_LINE:
            yield Record(number, problem=f"Is longer than {LONGEST_LINE:,} bytes.")
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
            document = _document(header, row, columns)
        except (csv.Error, _Unreadable) as error:
            problem = f"{str(error).rstrip('.')}."
        yield Record(rows.first, document, problem, until=rows.last if rows.last > rows.first else 0)


class _Rows:
    """The rows of a table. Raises csv.Error for one that cannot be read, after which come the next
    ones.

    A quote that is not closed takes all lines up to the next quote with it, and they would be
    missed by nobody.
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
                raise self._refusal(f"on to line {self.last:,}, and cannot be read ({error})") from error
            raise

    def _decoded(self, lines: Iterable[bytes]) -> Iterator[str]:
        for number, line in enumerate(lines, 1):
            if number >= self.first + MOST_LINES:
                raise self._refusal(f"over more than {MOST_LINES} lines")
            # What is no UTF-8 becomes halves of surrogate pairs, which no JSON is made of.
            yield line.decode(errors="surrogateescape")

    def _refusal(self, how_far: str) -> FileRefused:
        return FileRefused(f"What begins in line {self.first:,} runs {how_far}: a quote in it does not close.")


def in_words(error: DomainError) -> str:
    """What was wrong with a record. What is no JSON is said to be no body elsewhere."""
    if error.code is ErrorCode.MALFORMED_JSON:
        return f"{error.message.replace('The body is', 'Is').partition(';')[0]}."
    return error.message


class _Unreadable(Exception):
    """Why a row makes no record."""


def _check_header(header: Sequence[str], columns: Columns) -> None:
    if missing := [name for name in columns.required if name not in header]:
        raise FileRefused(f"Its first line must name the columns {', '.join(missing)}, and does not.")
    if twice := sorted({name for name in header if header.count(name) > 1}):
        raise FileRefused(f"Its first line names columns twice: {', '.join(twice)}.")
    if unknown := [repr(name) for name in header if not columns.are_known(name)]:
        known = ", ".join((*columns.required, *columns.optional, columns.rest, f"{columns.rest}.<name>"))
        raise FileRefused(f"Its first line names unknown columns: {', '.join(unknown)}; it may name {known}.")


def _document(header: Sequence[str], row: Sequence[str], columns: Columns) -> bytes:
    if len(row) != len(header):
        raise _Unreadable(f"Has {len(row)} cells, and the first line names {len(header)} columns")
    cells = {name: cell for name, cell in zip(header, row, strict=True) if name not in columns.ignored}
    found: dict[str, Any] = {
        name: cells[name]
        for name in (*columns.required, *columns.optional)
        if name in columns.required or cells.get(name)
    }
    if rest := _rest(cells, columns):
        found[columns.rest] = rest
    try:
        return orjson.dumps(found)
    except orjson.JSONEncodeError:
        raise _Unreadable("Is not valid UTF-8") from None


def _rest(cells: Mapping[str, str], columns: Columns) -> dict[str, Any]:
    """What stands in the column of all, and in those of single names; an empty cell is nothing."""
    found = _object(cells[columns.rest], columns.rest) if cells.get(columns.rest) else {}
    for column, cell in cells.items():
        name = columns.part_of(column)
        if name is not None and cell:
            found[name] = cell if name in columns.texts else _value(cell, column)
    return found


def _object(cell: str, column: str) -> dict[str, Any]:
    try:
        found = check(decode(cell.encode()))
    except UnicodeEncodeError:
        raise _Unreadable("Is not valid UTF-8") from None
    except DomainError as error:
        raise _Unreadable(f"{column}: {in_words(error)}") from None
    if not isinstance(found, dict):
        raise _Unreadable(f"{column}: Must be a JSON object")
    return found


def _value(cell: str, column: str) -> Any:
    if cell in ("true", "false"):
        return cell == "true"
    if not _number.fullmatch(cell):
        return cell
    number = json.loads(cell)
    if not math.isfinite(number):
        raise _Unreadable(f"{column}: Must be a finite number")
    return number
