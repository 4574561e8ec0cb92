"""Inserting events at the database's full speed: by COPY on PostgreSQL, by `executemany` on SQLite.

Nearly all events are new, so a call first writes its events as if all of them were. If one exists
already, a statement that skips and reports existing ids writes them again, at half the speed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from operator import attrgetter
from typing import Any
from uuid import UUID

import msgspec
import orjson
from django.db import DatabaseError, connection

from config.database.engines import Engine, engine, is_distributed
from config.database.group_commit import BeginAgain
from config.database.insertion import as_uuid, breaks_constraint, copy, insert_each, were_all_new
from config.database.insertion import insert as insert_rows
from events.expressions import HasKey
from events.models import EXPERIMENT_LENGTH, VARIANT_LENGTH, Event, EventQuerySet
from events.properties import EXPERIMENT_ID, VARIANT, reference_of

_LEAST_AT_ONCE = {Engine.SQLITE: 16, Engine.POSTGRESQL: 16, Engine.CITUS: 1}
"""For fewer rows, the statement that reports existing ids is faster. On Citus, a copy always is, and `two_phases` says
what else it does.
"""

_SECONDS_OF_CARE = 60.0
"""After a repeated id, others are likely: a client sends again what was not answered."""

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
    "is_doubted",
)
_UNLESS_THERE = "ON CONFLICT DO NOTHING RETURNING id, user_id"

Identity = UUID | tuple[UUID, str]
"""What no two events share: the id, or where tables are distributed, the id and the user."""
_ID, _ID_AND_USER = attrgetter("id"), attrgetter("id", "user_id")


class NewEvent(msgspec.Struct, frozen=True):
    """An event to store. `id` and `timestamp` are set, and `received_at` is the same for all events
    of a call. `is_client_report` is true if it reports a variant and came with a key of scope
    `client`.
    """

    id: UUID
    user_id: str
    name: str
    timestamp: datetime
    received_at: datetime
    properties: Mapping[str, Any]
    is_client_report: bool = False

    @property
    def is_doubted(self) -> bool | None:
        """Return what is stored at first. `experiments` may doubt the report then."""
        return False if self.is_client_report else None

    @property
    def experiment(self) -> str:
        return reference_of(self.properties.get(EXPERIMENT_ID, ""))[:EXPERIMENT_LENGTH]

    @property
    def variant(self) -> str:
        key: str = self.properties.get(VARIANT, "")
        return key[:VARIANT_LENGTH]

    @property
    def counted_at(self) -> datetime:
        """Return the time for analysis, which is never after the receipt, even if a client's clock
        runs ahead.
        """
        return (
            self.timestamp if self.timestamp <= self.received_at else self.received_at
        )  # a third of the time of min()


def of_client(event: NewEvent) -> NewEvent:
    """Return an event that came with a key of scope `client`, marked if it reports a variant."""
    if VARIANT not in event.properties or EXPERIMENT_ID not in event.properties:
        return event
    return msgspec.structs.replace(event, is_client_report=True)


def identity() -> Callable[[NewEvent | Event], Identity]:
    """Return the function that returns the identity of an event.

    A server of Citus has the events of some users alone, and cannot know the ids of all others.
    """
    return _ID_AND_USER if is_distributed() else _ID


def stored(events: Sequence[NewEvent]) -> EventQuerySet:
    """Return the stored events with the identities of these, which must be distinct."""
    if not is_distributed():
        return Event.objects.filter(pk__in=[event.id for event in events])
    return Event.objects.filter(HasKey([(event.id, event.user_id) for event in events]))


class _Care:
    """Until when this process expects repeated ids, by the clock of `time.monotonic`."""

    until = 0.0


def insert(events: Sequence[NewEvent], environment_id: int, *, is_attempt: bool = False) -> set[Identity]:
    """Insert the events with new ids, in the caller's transaction, and return the identities of the
    others.

    Each identity must appear only once. Pass events in the order of ids, so that two calls with common
    ids wait for each other without a deadlock. An attempt raises BeginAgain if it has ended the
    caller's transaction.
    """
    if len(events) >= _LEAST_AT_ONCE[engine()]:
        if connection.vendor == "postgresql":
            write = partial(copy, Event, _COLUMNS, _texts(events, environment_id))
        else:
            write = partial(insert_each, Event, _COLUMNS, _rows(events, environment_id))
        if is_attempt and time.monotonic() > _Care.until:
            _write_without_savepoint(write)
            return set()
        if were_all_new(write):
            return set()
    return {*map(identity(), events)} - _insert_new(events, environment_id)


def _write_without_savepoint(write: Callable[[], None]) -> None:
    """Spare a few events the savepoint, which takes a tenth of the time on Citus, for each worker makes one."""
    try:
        write()
    except DatabaseError as error:
        if not breaks_constraint(error):
            raise
        _Care.until = time.monotonic() + _SECONDS_OF_CARE
        raise BeginAgain from error


def _texts(events: Sequence[NewEvent], environment_id: int) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of the events as texts, which the driver writes without a look at their types."""
    environment = str(environment_id)
    # Making those of ids and times all at once takes a tenth.
    texts = msgspec.to_builtins([(event.id, event.timestamp, event.received_at) for event in events])
    for event, (event_id, timestamp, received_at) in zip(events, texts, strict=True):
        properties = orjson.dumps(event.properties).decode()
        columns = (event.user_id, event.name, timestamp, received_at, event.experiment, event.variant, properties)
        yield (event_id, environment, *columns, event.is_doubted)


def _insert_new(events: Sequence[NewEvent], environment_id: int) -> set[Identity]:
    inserted = insert_rows(Event, _COLUMNS, _rows(events, environment_id), _UNLESS_THERE)
    if is_distributed():
        return {(as_uuid(event_id), user_id) for event_id, user_id in inserted}
    return {as_uuid(event_id) for event_id, _ in inserted}


def _rows(events: Sequence[NewEvent], environment_id: int) -> list[tuple[Any, ...]]:
    """Return the values of each event in the order of the columns."""
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
            event.is_doubted,
        )
        for event in events
    ]
