"""Recording events: each once, all of a call in one transaction, which is committed when the call
returns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from enum import StrEnum
from operator import attrgetter
from uuid import UUID

from django.db import OperationalError, connection, transaction
from django.dispatch import Signal
from uuid_utils.compat import uuid7

from config.database.group_commit import Handler, is_conflict, writes
from config.models import Environment
from events.counts import storage
from events.models import Event
from events.recording.rows import NewEvent, insert

events_stored = Signal()
"""Sent inside the transaction, with `environment` and `events`: those that were not there before,
as NewEvent.
"""


class Outcome(StrEnum):
    """What became of an event."""

    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"
    CONFLICT = "conflict"


def new_id() -> UUID:
    return uuid7()


def record(events: Sequence[NewEvent], environment: Environment) -> list[Outcome]:
    """Store the events that are not stored yet and say, in order, what became of each.

    The same id with the same environment, user and name is the same event: a duplicate. With others
    it is a conflict. Where PostgreSQL gives the transaction up in favour of another one, it is
    begun once more.
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
    """As `record`, in one transaction with what other threads record at this moment."""
    return writes.submit(_SINGLES, (event, environment))


def _record_singles(singles: Sequence[tuple[NewEvent, Environment]]) -> list[Outcome]:
    by_environment: dict[int, list[int]] = {}
    for at, (_, environment) in enumerate(singles):
        by_environment.setdefault(environment.pk, []).append(at)
    outcomes: dict[int, Outcome] = {}
    for _, places in sorted(by_environment.items()):
        events = [singles[at][0] for at in places]
        outcomes.update(zip(places, _record(events, singles[places[0]][1]), strict=True))
    return [outcomes[at] for at in range(len(singles))]


_SINGLES = Handler(_record_singles, rank=2)


def _record(events: Sequence[NewEvent], environment: Environment) -> list[Outcome]:
    first_of_id = {event.id: event for event in reversed(events)}
    # In the order of ids, so that two calls with common ids wait for each other and never in a
    # circle.
    candidates = sorted(first_of_id.values(), key=attrgetter("id.int"))
    old = insert(candidates, environment.pk)
    fresh = [event for event in candidates if event.id not in old] if old else candidates
    if fresh:
        events_stored.send(sender=Event, environment=environment, events=fresh)
        storage.add(Counter((environment.pk, event.name, storage.quarter_of(event.timestamp)) for event in fresh))
    if len(fresh) == len(events):
        return [Outcome.ACCEPTED] * len(events)
    owners = _owners(old)
    outcomes = []
    for event in events:
        first = first_of_id[event.id]
        if event is first and event.id not in old:
            outcomes.append(Outcome.ACCEPTED)
            continue
        owner = owners.get(event.id, (environment.pk, first.user_id, first.name))
        is_same = owner == (environment.pk, event.user_id, event.name)
        outcomes.append(Outcome.DUPLICATE if is_same else Outcome.CONFLICT)
    return outcomes


def _owners(ids: Collection[UUID]) -> dict[UUID, tuple[int, str, str]]:
    if not ids:
        return {}
    rows = Event.objects.filter(pk__in=ids).values_list("pk", "environment_id", "user_id", "name")
    return {event_id: (environment_id, user_id, name) for event_id, environment_id, user_id, name in rows}
