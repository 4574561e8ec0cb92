"""Recording events: each event once, in one transaction for a call, which is committed when the call returns.

Events are inserted at the database's full speed: by COPY on PostgreSQL, by `executemany` on SQLite. Nearly all events
are new, so a call first writes its events as if all of them were. If one exists already, a statement that skips and
reports existing ids writes them again, at half the speed.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from functools import partial
from operator import attrgetter
from typing import Any
from uuid import UUID

import msgspec
import orjson
from django.db import DatabaseError, OperationalError, connection, transaction
from django.dispatch import Signal
from uuid_utils.compat import uuid7

from config.database import insertion
from config.database.engines import Engine, engine, is_distributed
from config.database.group_commit import BeginAgain, Handler, is_conflict, writes
from config.database.insertion import as_uuid, breaks_constraint, were_all_new
from config.models import Environment
from events.counts import storage
from events.expressions import HasKey
from events.models import EXPERIMENT_LENGTH, VARIANT_LENGTH, Event, EventQuerySet
from events.properties import EXPERIMENT_ID, VARIANT, reference_of

events_stored = Signal()
"""Sent inside the transaction, with `environment` and `events`: the new ones, as NewEvent."""

_MIN_BATCH = {Engine.SQLITE: 16, Engine.POSTGRESQL: 16, Engine.CITUS: 1}
"""For fewer rows, the statement that reports existing ids is faster. On Citus, a copy always is, and has the workers
commit in two phases.
"""

_SECONDS_OF_REPEATS = 60.0
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

Identity = UUID | tuple[UUID, str]
"""What no two events share: the id, or where tables are distributed, the id and the user."""
_ID, _ID_AND_USER = attrgetter("id"), attrgetter("id", "user_id")


class Outcome(StrEnum):
    """The result of recording one event."""

    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"
    CONFLICT = "conflict"


class NewEvent(msgspec.Struct, frozen=True):
    """An event to store.

    All events of a call have the same `received_at`. `is_client_report` is true if the event reports a variant and
    came with a key of scope `client`.
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
        """Return the time for analysis. It is never after the receipt, even if a client's clock runs ahead."""
        # A third of the time of min().
        return self.timestamp if self.timestamp <= self.received_at else self.received_at


def new_id() -> UUID:
    return uuid7()


def from_client(event: NewEvent) -> NewEvent:
    """Return an event that came with a key of scope `client`, marked if it reports a variant."""
    if VARIANT not in event.properties or EXPERIMENT_ID not in event.properties:
        return event
    return msgspec.structs.replace(event, is_client_report=True)


def record(events: Sequence[NewEvent], environment: Environment) -> list[Outcome]:
    """Store the events that are not stored yet, and return an outcome for each, in order.

    The same id with the same environment, user and name is a duplicate, and with others a conflict. If PostgreSQL
    aborts the transaction because of a conflict with another transaction, it is tried once more.
    """
    try:
        with transaction.atomic():
            return _record(events, environment)
    except OperationalError as error:
        if connection.in_atomic_block or not is_conflict(error):
            raise
    with transaction.atomic():
        return _record(events, environment)


def record_one(event: NewEvent, environment: Environment) -> Outcome:
    """Record one event, in one transaction with the events that other threads record at the same time."""
    return writes.submit(_SINGLES, (event, environment))


def record_each(singles: Sequence[tuple[NewEvent, Environment]]) -> list[Outcome | Exception]:
    """Record events together, each as `record_one` does, and return the outcome or the error of each."""
    return writes.submit_each(_SINGLES, singles)


def _record_singles(singles: Sequence[tuple[NewEvent, Environment]], *, is_attempt: bool = False) -> list[Outcome]:
    by_environment: dict[int, list[int]] = {}
    for index, (_, environment) in enumerate(singles):
        by_environment.setdefault(environment.pk, []).append(index)
    outcomes: dict[int, Outcome] = {}
    for _, indexes in sorted(by_environment.items()):
        events = [singles[index][0] for index in indexes]
        recorded = _record(events, singles[indexes[0]][1], is_attempt=is_attempt)
        outcomes.update(zip(indexes, recorded, strict=True))
    return [outcomes[index] for index in range(len(singles))]


_SINGLES = Handler(_record_singles, rank=2, attempt=partial(_record_singles, is_attempt=True))


def _record(events: Sequence[NewEvent], environment: Environment, *, is_attempt: bool = False) -> list[Outcome]:
    identify = identity_getter()
    first_of = {identify(event): event for event in reversed(events)}
    # In the order of ids, so that two calls with common ids wait for each other without a deadlock.
    candidates = sorted(first_of.values(), key=attrgetter("id.int"))
    old = insert(candidates, environment.pk, is_attempt=is_attempt)
    new = [event for event in candidates if identify(event) not in old] if old else candidates
    if new:
        events_stored.send(sender=Event, environment=environment, events=new)
        storage.add_counts(Counter((environment.pk, event.name, storage.quarter_of(event.timestamp)) for event in new))
    if len(new) == len(events):
        return [Outcome.ACCEPTED] * len(events)
    owners = _owners([event for event in candidates if identify(event) in old])
    outcomes = []
    for event in events:
        first = first_of[identify(event)]
        if event is first and identify(event) not in old:
            outcomes.append(Outcome.ACCEPTED)
            continue
        owner = owners.get(identify(event), (environment.pk, first.user_id, first.name))
        is_same = owner == (environment.pk, event.user_id, event.name)
        outcomes.append(Outcome.DUPLICATE if is_same else Outcome.CONFLICT)
    return outcomes


def _owners(old: Sequence[NewEvent]) -> dict[Identity, tuple[int, str, str]]:
    """Return the environment, the user and the name of the stored events with the identities of these."""
    if not old:
        return {}
    identify, stored = identity_getter(), find_stored_events(old).only("environment_id", "user_id", "name")
    return {identify(event): (event.environment_id, event.user_id, event.name) for event in stored}


def identity_getter() -> Callable[[NewEvent | Event], Identity]:
    """Return the function that returns the identity of an event.

    A server of Citus has the events of some users alone, and cannot know the ids of all others.
    """
    return _ID_AND_USER if is_distributed() else _ID


def find_stored_events(events: Sequence[NewEvent]) -> EventQuerySet:
    """Return the stored events with the identities of these, which must be distinct."""
    if not is_distributed():
        return Event.objects.filter(pk__in=[event.id for event in events])
    return Event.objects.filter(HasKey([(event.id, event.user_id) for event in events]))


class _Repeats:
    """Until when this process expects repeated ids, by the clock of `time.monotonic`."""

    expected_until = 0.0


def insert(events: Sequence[NewEvent], environment_id: int, *, is_attempt: bool = False) -> set[Identity]:
    """Insert the events with new ids, in the caller's transaction, and return the identities of the others.

    Each identity must appear only once. Pass events in the order of ids, so that two calls with common ids wait for
    each other without a deadlock. An attempt raises BeginAgain if it has ended the caller's transaction.
    """
    if len(events) >= _MIN_BATCH[engine()]:
        if connection.vendor == "postgresql":
            write = partial(insertion.copy, Event, _COLUMNS, _rows_of_texts(events, environment_id))
        else:
            write = partial(insertion.insert_each, Event, _COLUMNS, _rows(events, environment_id))
        if is_attempt and time.monotonic() > _Repeats.expected_until:
            _write_without_savepoint(write)
            return set()
        if were_all_new(write):
            return set()
    return {*map(identity_getter(), events)} - _insert_new(events, environment_id)


def _write_without_savepoint(write: Callable[[], None]) -> None:
    """Spare a few events the savepoint, which takes a tenth of the time on Citus, because each worker makes one."""
    try:
        write()
    except DatabaseError as error:
        if not breaks_constraint(error):
            raise
        _Repeats.expected_until = time.monotonic() + _SECONDS_OF_REPEATS
        raise BeginAgain from error


def _insert_new(events: Sequence[NewEvent], environment_id: int) -> set[Identity]:
    unless_stored = "ON CONFLICT DO NOTHING RETURNING id, user_id"
    inserted = insertion.insert(Event, _COLUMNS, _rows(events, environment_id), unless_stored)
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


def _rows_of_texts(events: Sequence[NewEvent], environment_id: int) -> Iterator[tuple[Any, ...]]:
    """Yield the same as texts, which the driver copies without a look at their types."""
    environment = str(environment_id)
    # Making those of ids and times all at once takes a tenth.
    texts = msgspec.to_builtins([(event.id, event.timestamp, event.received_at) for event in events])
    for event, (event_id, timestamp, received_at) in zip(events, texts, strict=True):
        properties = orjson.dumps(event.properties).decode()
        columns = (event.user_id, event.name, timestamp, received_at, event.experiment, event.variant, properties)
        yield (event_id, environment, *columns, event.is_doubted)
