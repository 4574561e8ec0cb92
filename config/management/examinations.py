"""The examinations of the doctor, which apps register when they start, and their findings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum

from django.db import Error

from config.database.schema import SchemaIsBehind, require_schema


class Level(Enum):
    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of looking at one thing, in words without secrets. `remedy` says what to do."""

    level: Level
    words: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Options:
    """`url` is the public address of the service, to send requests through its proxy."""

    url: str | None = None


def ok(words: str) -> Finding:
    return Finding(Level.OK, words)


def warning(words: str, remedy: str) -> Finding:
    return Finding(Level.WARNING, words, remedy)


def error(words: str, remedy: str) -> Finding:
    return Finding(Level.ERROR, words, remedy)


Examine = Callable[[Options], Iterator[Finding]]


@dataclass(frozen=True, slots=True)
class _Examination:
    examine: Examine
    needs_schema: bool


_examinations: dict[str, _Examination] = {}


def register(subject: str, examine: Examine, *, needs_schema: bool = False) -> None:
    """Add an examination. With `needs_schema`, it is skipped if the database is away or lacks migrations."""
    assert subject not in _examinations, subject  # noqa: S101 (two must not share a name)
    _examinations[subject] = _Examination(examine, needs_schema)


def examine_all(options: Options) -> Iterator[tuple[str, Finding]]:
    """Yield the findings of all examinations, each with its subject."""
    has_schema = _has_schema()
    for subject, examination in _examinations.items():
        if has_schema or not examination.needs_schema:
            yield from ((subject, finding) for finding in examination.examine(options))


def _has_schema() -> bool:
    try:
        require_schema()
    except (Error, SchemaIsBehind):
        return False
    return True
