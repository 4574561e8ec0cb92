"""Importing a file: all records are validated before any is written, and then written in chunks.

Each chunk is one transaction. Records that are stored already do not change, so an interrupted import can be repeated
from the start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Generic, TypeVar

from config.errors import DomainError, ErrorCode
from events.imports.files import Columns, File, Record, message_of, records

MAX_SHOWN = 20
"""So many problems are listed one by one."""
_CHUNK_SIZE = 5000

Read = TypeVar("Read")


@dataclass(slots=True)
class Problems:
    """Problems of the lines of a file: the first ones, and their number."""

    shown: list[str] = field(default_factory=list)
    count: int = 0

    def add(self, line: int, message: str, until: int = 0) -> None:
        self.count += 1
        if len(self.shown) < MAX_SHOWN:
            lines = f"lines {line:,} to {until:,}" if until else f"line {line:,}"
            self.shown.append(f"{lines}: {message}")

    def lines(self) -> list[str]:
        more = self.count - len(self.shown)
        return [*self.shown, f"and {more:,} more"] if more else self.shown


class InvalidLines(Exception):
    """Nothing was written, because these lines are invalid."""

    def __init__(self, problems: Problems) -> None:
        super().__init__("\n".join(problems.lines()))
        self.problems = problems


@dataclass(frozen=True, slots=True)
class Import(Generic[Read]):
    """A kind of import. `read` parses a record or raises DomainError. `write` stores records with their lines."""

    columns: Columns
    read: Callable[[bytes], Read]
    write: Callable[[Sequence[tuple[int, Read]]], object]

    def run(self, file: File, *, skips_invalid: bool, on_progress: Callable[[int], object]) -> Problems:
        """Import a file, which is read twice, and return the problems.

        Raises FileRefused, and InvalidLines unless invalid lines are skipped.
        """
        problems = Problems()
        for _ in self._valid_records(file, problems, on_progress):
            pass
        if problems.count and not skips_invalid:
            raise InvalidLines(problems)
        rows = self._valid_records(file, Problems(), on_progress)
        while chunk := list(islice(rows, _CHUNK_SIZE)):
            self.write(chunk)
        return problems

    def _valid_records(
        self, file: File, problems: Problems, on_progress: Callable[[int], object]
    ) -> Iterator[tuple[int, Read]]:
        for record in records(file, self.columns, on_progress):
            try:
                yield record.line, self._read(record)
            except DomainError as error:
                problems.add(record.line, message_of(error), record.until)

    def _read(self, record: Record) -> Read:
        if record.problem:
            raise DomainError(ErrorCode.VALIDATION_FAILED, record.problem)
        return self.read(record.as_json)
