"""Importing a file: all of it is looked at before anything is written, and then written in chunks.

A chunk is a transaction, and what is there already stays as it is: whoever breaks off begins again
from the beginning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Generic, TypeVar

from config.errors import DomainError, ErrorCode
from events.imports.files import File
from events.imports.records import Columns, Record, in_words, records

MOST_TOLD = 20
"""Problems that are told one by one."""
_AT_ONCE = 5000

Read = TypeVar("Read")


@dataclass(slots=True)
class Problems:
    """What is wrong with lines of a file: the first ones, and how many there are."""

    told: list[str] = field(default_factory=list)
    count: int = 0

    def add(self, line: int, message: str, until: int = 0) -> None:
        self.count += 1
        if len(self.told) < MOST_TOLD:
            lines = f"lines {line:,} to {until:,}" if until else f"line {line:,}"
            self.told.append(f"{lines}: {message}")

    def lines(self) -> list[str]:
        more = self.count - len(self.told)
        return [*self.told, f"and {more:,} more"] if more else self.told


class InvalidLines(Exception):
    """Nothing was written, for these lines cannot be imported."""

    def __init__(self, problems: Problems) -> None:
        super().__init__("\n".join(problems.lines()))
        self.problems = problems


@dataclass(frozen=True, slots=True)
class Import(Generic[Read]):
    """What is imported: how a record is read, which raises DomainError where it is not acceptable,
    and what is done with those of a chunk, each with its line.
    """

    columns: Columns
    read: Callable[[bytes], Read]
    write: Callable[[Sequence[tuple[int, Read]]], object]

    def run(self, file: File, *, skips_invalid: bool, on_progress: Callable[[int], object]) -> Problems:
        """Import a file, which is read twice. Raises InvalidLines, unless these are to be skipped,
        and FileRefused.
        """
        problems = Problems()
        for _ in self._acceptable(file, problems, on_progress):
            pass
        if problems.count and not skips_invalid:
            raise InvalidLines(problems)
        rows = self._acceptable(file, Problems(), on_progress)
        while chunk := list(islice(rows, _AT_ONCE)):
            self.write(chunk)
        return problems

    def _acceptable(
        self, file: File, problems: Problems, on_progress: Callable[[int], object]
    ) -> Iterator[tuple[int, Read]]:
        for record in records(file, self.columns, on_progress):
            try:
                yield record.line, self._read(record)
            except DomainError as error:
                problems.add(record.line, in_words(error), record.until)

    def _read(self, record: Record) -> Read:
        if record.problem:
            raise unreadable(record.problem)
        return self.read(record.document)


def unreadable(message: str) -> DomainError:
    return DomainError(ErrorCode.VALIDATION_FAILED, message)
