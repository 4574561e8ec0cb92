"""The lines of a file, and its records, each as a JSON object.

A file can be read more than once, even if it is compressed or comes from stdin. A line of NDJSON is such an object. A
row of CSV becomes one by the names of its columns.
"""

from __future__ import annotations

import csv
import gzip
import json
import math
import re
import shutil
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import IO, Any

import orjson

from config.api.bodies import check, decode
from config.csv_cells import unescape
from config.errors import DomainError, ErrorCode

STANDARD = "-"
MAX_LINE_LENGTH = 1024 * 1024
"""In bytes. No record needs a tenth of it."""
_IN_MEMORY = 16 * 1024 * 1024
_GZIP = b"\x1f\x8b"
"""The first bytes of a gzip file. CSV and NDJSON never begin with them."""

FORMATS = ("csv", "ndjson")

MAX_ROW_LINES = 100
"""Of one CSV row, by line breaks within quotes. More mean that a quote is not closed."""
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_number = re.compile(r"-?(0|[1-9]\d{0,17})(\.\d+)?([eE][+-]?\d{1,3})?")


class FileRefused(Exception):
    """A file cannot be imported; the message gives the reason to the operator."""


@dataclass(frozen=True, slots=True)
class File:
    """An open file. `format` is one of `FORMATS`. `size` is in bytes as stored, and is the unit of progress."""

    format: str
    size: int
    raw: IO[bytes]
    is_compressed: bool

    def lines(self, on_progress: Callable[[int], object]) -> Iterator[bytes]:
        """Yield all lines from the start. One that is too long is cut to one byte more than MAX_LINE_LENGTH."""
        self.raw.seek(0)
        reported = 0
        try:
            with gzip.GzipFile(fileobj=self.raw, mode="rb") if self.is_compressed else _left_open(self.raw) as file:
                while line := file.readline(MAX_LINE_LENGTH + 1):
                    yield line
                    while len(line) > MAX_LINE_LENGTH and not line.endswith(b"\n"):
                        line = file.readline(MAX_LINE_LENGTH + 1)
                    if (position := self.raw.tell()) > reported:
                        on_progress(position - reported)
                        reported = position
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise FileRefused(f"It is not valid gzip ({error}).") from error


@contextmanager
def opened(name: str, file_format: str | None = None) -> Iterator[File]:
    """Open a file; `-` is stdin, which is copied to a temporary file. Raises FileRefused.

    Without a format, the name of the file decides. For stdin it is NDJSON.
    """
    try:
        if name == STANDARD:
            with SpooledTemporaryFile(_IN_MEMORY) as spooled:
                shutil.copyfileobj(sys.stdin.buffer, spooled)
                yield File(file_format or "ndjson", spooled.tell(), spooled, _begins_as_gzip(spooled))
            return
        path = Path(name)
        with path.open("rb") as file:
            is_compressed = path.suffix == ".gz" or _begins_as_gzip(file)
            yield File(file_format or _format_of(path), path.stat().st_size, file, is_compressed)
    except OSError as error:
        raise FileRefused(f"It cannot be read: {error.strerror or error}.") from error


def _format_of(path: Path) -> str:
    ending = (path.with_suffix("") if path.suffix == ".gz" else path).suffix.removeprefix(".")
    if ending not in FORMATS:
        raise FileRefused("Its name does not say whether it is CSV or NDJSON; add --format.")
    return ending


def _begins_as_gzip(file: IO[bytes]) -> bool:
    file.seek(0)
    return file.read(len(_GZIP)) == _GZIP


@contextmanager
def _left_open(file: IO[bytes]) -> Iterator[IO[bytes]]:
    yield file


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a CSV file: required ones, optional ones, and `rest` for other properties as a JSON object.

    A single property may also have its own column, `<rest>.<name>`. There, a JSON number, `true` or `false` is read as
    such, unless the name is in `texts`. Columns in `ignored` are not read.
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
    """A record that begins in a line, and ends in `until` if that is another one. `problem` says why it is invalid."""

    line: int
    as_json: bytes = b""
    problem: str = ""
    until: int = 0


def records(file: File, columns: Columns, on_progress: Callable[[int], object]) -> Iterator[Record]:
    """Yield the records of a file in order. Raises FileRefused if the file as a whole cannot be read."""
    lines = _without_byte_order_mark(file.lines(on_progress))
    return _of_table(lines, columns) if file.format == "csv" else _of_lines(lines)


def _without_byte_order_mark(lines: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the lines without the byte order mark that some programs write before UTF-8."""
    for first in lines:
        yield first.removeprefix(_BYTE_ORDER_MARK)
        break
    yield from lines


def _of_lines(lines: Iterable[bytes]) -> Iterator[Record]:
    for number, line in enumerate(lines, 1):
        if len(line) > MAX_LINE_LENGTH:
            yield Record(number, problem=f"Must be at most {MAX_LINE_LENGTH:,} bytes long.")
        elif as_json := line.strip():
            yield Record(number, as_json)


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
        as_json, problem = b"", ""
        try:
            row = next(rows, None)
            if row is None:
                return
            if not row:
                continue
            as_json = _as_json(header, [*map(unescape, row)], columns)
        except (csv.Error, _Unreadable) as error:
            problem = f"{str(error).rstrip('.')}."
        yield Record(rows.first, as_json, problem, until=rows.last if rows.last > rows.first else 0)


class _Rows:
    """Iterates over the rows of a table. Raises csv.Error for an invalid row, and can then continue with the next.

    An unclosed quote would silently swallow all lines up to the next quote. So FileRefused is raised for a row that is
    invalid or too long over several lines.
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
            if number >= self.first + MAX_ROW_LINES:
                raise self._refusal(f"over more than {MAX_ROW_LINES} lines")
            # Bytes that are not UTF-8 become lone surrogates, which JSON cannot contain.
            yield line.decode(errors="surrogateescape")

    def _refusal(self, how_far: str) -> FileRefused:
        return FileRefused(f"The row in line {self.first:,} runs {how_far}: a quote in it is not closed.")


def message_of(error: DomainError) -> str:
    """Return what is wrong with a record. Messages of the API about invalid JSON speak of a body instead."""
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


def _as_json(header: Sequence[str], row: Sequence[str], columns: Columns) -> bytes:
    if len(row) != len(header):
        raise _Unreadable(f"The row has {len(row)} cells, but the first line names {len(header)} columns")
    cells = {name: cell for name, cell in zip(header, row, strict=True) if name not in columns.ignored}
    record: dict[str, Any] = {
        name: cells[name]
        for name in (*columns.required, *columns.optional)
        if name in columns.required or cells.get(name)
    }
    if rest := _rest(cells, columns):
        record[columns.rest] = rest
    try:
        return orjson.dumps(record)
    except orjson.JSONEncodeError:
        raise _Unreadable("It is not valid UTF-8") from None


def _rest(cells: Mapping[str, str], columns: Columns) -> dict[str, Any]:
    """Return the properties from the column `<rest>` and from columns `<rest>.<name>`, without empty cells."""
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
