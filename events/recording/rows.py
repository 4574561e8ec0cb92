"""New events on their way into the table, at the database's own speed: COPY on PostgreSQL,
`executemany` on SQLite.

Nearly all events are new, so those of a call are first written as if all of them were. Where one is
there already, they are written again by a statement that can tell which, at half the speed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
import orjson
from django.db import IntegrityError, connection, transaction

from config.database.commit_order import CURRENT
from config.database.insertion import adapt_row, as_uuid
from config.database.insertion import insert as insert_rows
from events.models import EXPERIMENT_LENGTH, VARIANT_LENGTH, Event
from events.properties import EXPERIMENT_ID, VARIANT

_LEAST_AT_ONCE = 16
"""Fewer rows than these are sooner written by the statement that tells which."""

_TABLE = Event._meta.db_table
_COLUMNS = (
    "id",
    "environment_id",
    "user_id",
    "name",
    "timestamp",
    "received_at",
    "experiment",
    "variant",
    "properties",
)
_NAMES = ", ".join(f'"{column}"' for column in _COLUMNS)
_UNLESS_THERE = "ON CONFLICT (id) DO NOTHING RETURNING id"


class NewEvent(msgspec.Struct, frozen=True):
    """An event as it is to be stored. `id` and `timestamp` are set, `received_at` is the same for a
    whole call.
    """

    id: UUID
    user_id: str
    name: str
    timestamp: datetime
    received_at: datetime
    properties: Mapping[str, Any]

    @property
    def experiment(self) -> str:
        reference: str = self.properties.get(EXPERIMENT_ID, "")
        return reference[:EXPERIMENT_LENGTH]

    @property
    def variant(self) -> str:
        key: str = self.properties.get(VARIANT, "")
        return key[:VARIANT_LENGTH]

    @property
    def counted_at(self) -> datetime:
        """Its moment for analysis: a clock that runs ahead cannot put an event after its receipt."""
        return min(self.timestamp, self.received_at)


def insert(events: Sequence[NewEvent], environment_id: int) -> set[UUID]:
    """Insert those whose ids are not there yet, in the caller's transaction, and return the ids of
    the others.

    No id may stand there twice. Give them in the order of ids, so that two calls with common ids
    wait for each other and never in a circle.
    """
    if len(events) >= _LEAST_AT_ONCE:
        write = _copy if connection.vendor == "postgresql" else _execute_many
        if _were_all_new(write, events, environment_id):
            return set()
    return {event.id for event in events} - _insert_new(events, environment_id)


def _were_all_new(
    write: Callable[[Sequence[NewEvent], int], None], events: Sequence[NewEvent], environment_id: int
) -> bool:
    try:
        with transaction.atomic():
            write(events, environment_id)
    except IntegrityError:  # whatever it was, the statement below meets it again, or it was an id
        return False
    return True


def _copy(events: Sequence[NewEvent], environment_id: int) -> None:
    # As texts, which need no look at their types, and those of ids and moments all at once, in a
    # tenth of the time.
    environment = str(environment_id)
    texts = msgspec.to_builtins([(event.id, event.timestamp, event.received_at) for event in events])
    command = f"COPY {_TABLE} ({_NAMES}) FROM STDIN"
    with connection.cursor() as cursor, connection.wrap_database_errors, cursor.copy(command) as copy:
        for event, (event_id, timestamp, received_at) in zip(events, texts, strict=True):
            properties = orjson.dumps(event.properties).decode()
            columns = (event.user_id, event.name, timestamp, received_at, event.experiment, event.variant, properties)
            copy.write_row((event_id, environment, *columns))


def _execute_many(events: Sequence[NewEvent], environment_id: int) -> None:
    values = ", ".join(["%s"] * len(_COLUMNS) + [CURRENT["sqlite"]])
    statement = f"INSERT INTO {_TABLE} ({_NAMES}, arrival) VALUES ({values})"  # noqa: S608 (no data)
    with connection.cursor() as cursor:
        cursor.executemany(statement, [adapt_row(row) for row in _rows(events, environment_id)])


def _insert_new(events: Sequence[NewEvent], environment_id: int) -> set[UUID]:
    rows = _rows(events, environment_id)
    return {as_uuid(found) for (found,) in insert_rows(Event, _COLUMNS, rows, _UNLESS_THERE)}


def _rows(events: Sequence[NewEvent], environment_id: int) -> list[tuple[Any, ...]]:
    """Their values in the order of the columns."""
    return [
        (
            event.id,
            environment_id,
            event.user_id,
            event.name,
            event.timestamp,
            event.received_at,
            event.experiment,
            event.variant,
            event.properties,
        )
        for event in events
    ]
