"""Recording events: each once, all of a call in one transaction, which is committed when the call returns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from django.db import connection, transaction
from django.dispatch import Signal
from uuid_utils.compat import uuid7

from config.models import Environment
from events.models import EXPERIMENT_LENGTH, Event
from events.properties import EXPERIMENT_ID

events_stored = Signal()
"""Sent inside the transaction, with `environment` and `events`: those that were not there before, as NewEvent."""

_ROWS_A_STATEMENT = 1000


@dataclass(frozen=True, slots=True)
class NewEvent:
    """An event as it is to be stored. `id` and `timestamp` are set, `received_at` is the same for a whole call."""

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
    def counted_at(self) -> datetime:
        """Its moment for analysis: a clock that runs ahead cannot put an event after its receipt."""
        return min(self.timestamp, self.received_at)


class Outcome(StrEnum):
    """What became of an event."""

    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"
    CONFLICT = "conflict"


def new_id() -> UUID:
    return uuid7()


def record(events: Sequence[NewEvent], environment: Environment) -> list[Outcome]:
    """Store the events that are not stored yet and say, in order, what became of each.

    The same id with the same environment, user and name is the same event: a duplicate. With others it is a conflict.
    """
    first_of_id = {event.id: event for event in reversed(events)}
    # In the order of ids, so that two calls with common ids wait for each other and never in a circle.
    candidates = sorted(first_of_id.values(), key=lambda event: event.id)
    with transaction.atomic():
        stored = {
            inserted
            for at in range(0, len(candidates), _ROWS_A_STATEMENT)
            for inserted in _insert(candidates[at : at + _ROWS_A_STATEMENT], environment)
        }
        owners = _owners(event.id for event in candidates if event.id not in stored)
        fresh = [event for event in candidates if event.id in stored]
        if fresh:
            events_stored.send(sender=Event, environment=environment, events=fresh)
    outcomes = []
    for event in events:
        if event.id in stored and first_of_id[event.id] is event:
            outcomes.append(Outcome.ACCEPTED)
            continue
        first = first_of_id[event.id]
        owner = owners.get(event.id, (environment.pk, first.user_id, first.name))
        is_same = owner == (environment.pk, event.user_id, event.name)
        outcomes.append(Outcome.DUPLICATE if is_same else Outcome.CONFLICT)
    return outcomes


def _insert(events: Sequence[NewEvent], environment: Environment) -> set[UUID]:
    """Insert what is not there and return its ids. The ORM can ignore conflicts, but not say which rows it wrote."""
    fields = Event._meta.concrete_fields
    columns = ", ".join(connection.ops.quote_name(str(field.column)) for field in fields)
    row = f"({', '.join(['%s'] * len(fields))})"
    statement = (
        f"INSERT INTO {Event._meta.db_table} ({columns}) VALUES {', '.join([row] * len(events))} "  # noqa: S608 (no data)
        "ON CONFLICT (id) DO NOTHING RETURNING id"
    )
    values = [
        field.get_db_prep_save(getattr(event, field.attname), connection)
        for event in (_row(event, environment) for event in events)
        for field in fields
    ]
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return {found if isinstance(found, UUID) else UUID(found) for (found,) in cursor.fetchall()}


def _row(event: NewEvent, environment: Environment) -> Event:
    return Event(
        id=event.id,
        environment=environment,
        user_id=event.user_id,
        name=event.name,
        timestamp=event.timestamp,
        received_at=event.received_at,
        experiment=event.experiment,
        properties=dict(event.properties),
    )


def _owners(ids: Iterable[UUID]) -> dict[UUID, tuple[int, str, str]]:
    rows = Event.objects.filter(pk__in=list(ids)).values_list("pk", "environment_id", "user_id", "name")
    return {event_id: (environment_id, user_id, name) for event_id, environment_id, user_id, name in rows}
