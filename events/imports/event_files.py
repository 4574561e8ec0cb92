"""Importing events from a file. Each is stored once, even if the file is imported several times."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID, uuid5

import msgspec
import orjson
from django.dispatch import Signal

from config.api.bodies import check, decode
from config.errors import Detail, DetailCode, ValidationFailed
from config.models import Environment
from config.timestamps import format_timestamp
from events.api.inputs import read_event
from events.imports.files import Columns, File
from events.imports.importing import Import, Problems
from events.imports.inspection import Inspection
from events.recording import NewEvent, Outcome, record

COLUMNS = Columns(
    required=("event", "userId", "timestamp"),
    optional=("id",),
    rest="properties",
    texts=("currency", "experimentId", "variant"),
    ignored=("receivedAt",),  # exports contain it
)
events_imported = Signal()
"""Sent after an import, with `environment`, `received_at` and the `names` of the events.

Receivers return sentences on what looks wrong.
"""

_NAMESPACE = UUID("c5f1c0de-6a6c-5d0b-9c3e-8f6b1d2a7e40")
_MAX_INTEGER = 2**63

Read = tuple[NewEvent, bool]
"""An event, and whether the file contains its id."""


@dataclass(slots=True)
class Imported:
    """The outcomes of an import, and the problems of its lines.

    `conflicts` are ids that other events have. `warnings` say what looks wrong although it is valid.
    """

    problems: Problems = field(default_factory=Problems)
    conflicts: Problems = field(default_factory=Problems)
    outcomes: Counter[Outcome] = field(default_factory=Counter)
    warnings: list[str] = field(default_factory=list)


def import_events(
    file: File,
    environment: Environment,
    *,
    received_at: datetime,
    skips_invalid: bool,
    on_progress: Callable[[int], object],
) -> Imported:
    """Store the events of a file that are not stored yet.

    Raises FileRefused, and InvalidLines for invalid lines that may not be skipped.
    """
    imported, names = Imported(), set[str]()
    with closing(_Occurrences()) as occurrences, Inspection() as inspection:

        def write(chunk: Sequence[tuple[int, Read]]) -> None:
            inspection.add((line, event.user_id, event.properties) for line, (event, _) in chunk)
            names.update(event.name for _, (event, _) in chunk)
            events = [
                event if has_id else _with_derived_id(event, environment, occurrences) for _, (event, has_id) in chunk
            ]
            outcomes = record(events, environment)
            imported.outcomes.update(outcomes)
            for (line, _), outcome in zip(chunk, outcomes, strict=True):
                if outcome is Outcome.CONFLICT:
                    imported.conflicts.add(line, "id: Another event already has this id; use a new one.")

        importing = Import(COLUMNS, partial(_read, received_at=received_at), write)
        imported.problems = importing.run(file, skips_invalid=skips_invalid, on_progress=on_progress)
        imported.warnings = [*inspection.warnings("property")]
    for _, warnings in events_imported.send(Imported, environment=environment, names=names, received_at=received_at):
        imported.warnings.extend(warnings or ())
    return imported


def _read(as_json: bytes, *, received_at: datetime) -> Read:
    """Read an event as POST /v1/events does, but require its timestamp, for which the time of receipt is no default."""
    value = check(decode(as_json))
    if not isinstance(value, dict):
        return read_event(as_json, received_at=received_at), False  # it raises the error that describes the problem
    if "receivedAt" in value:
        as_json = orjson.dumps({name: member for name, member in value.items() if name != "receivedAt"})
    event = read_event(as_json, received_at=received_at)
    if "timestamp" not in value:
        message = "This field is required in a file, such as 2026-01-31T12:00:00Z."
        raise ValidationFailed([Detail("timestamp", DetailCode.REQUIRED, message)])
    return event, "id" in value


class _Occurrences:
    """Counts how often each content occurs in a file, on disk, because memory may be too small."""

    def __init__(self) -> None:
        self._database = sqlite3.connect("", isolation_level=None)  # a file that is deleted on close
        self._database.execute("PRAGMA journal_mode = OFF")
        self._database.execute("CREATE TABLE seen (content BLOB PRIMARY KEY, times INTEGER NOT NULL) WITHOUT ROWID")
        self._database.execute("BEGIN")

    def count(self, content: bytes) -> int:
        """Return how often the content has occurred so far, this time included."""
        [(times,)] = self._database.execute(
            "INSERT INTO seen VALUES (?, 1) ON CONFLICT (content) DO UPDATE SET times = times + 1 RETURNING times",
            (content,),
        ).fetchall()
        return int(times)

    def close(self) -> None:
        self._database.close()


def _with_derived_id(event: NewEvent, environment: Environment, occurrences: _Occurrences) -> NewEvent:
    """Return the event with an id that is the same in every import.

    It is derived from the content, and from how many equal events came before it in the file. 5 and 5.0 are equal,
    because the next export may write the other one.
    """
    properties = _with_integers(event.properties)
    content = [environment.key, event.name, event.user_id, format_timestamp(event.timestamp), properties]
    name = orjson.dumps(content, option=orjson.OPT_SORT_KEYS).decode()
    content_id = uuid5(_NAMESPACE, name)
    times = occurrences.count(content_id.bytes)
    return msgspec.structs.replace(event, id=uuid5(content_id, str(times)))


def _with_integers(value: Any) -> Any:
    """Return a value of JSON with whole numbers as integers, as far as JSON has these."""
    match value:
        case float():
            return int(value) if value.is_integer() and abs(value) < _MAX_INTEGER else value
        case dict():
            return {name: _with_integers(member) for name, member in value.items()}
        case list():
            return [_with_integers(member) for member in value]
        case _:
            return value
