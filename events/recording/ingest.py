"""Recording events: each event once, in one transaction for a call, which is committed when the
call returns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from functools import partial
from operator import attrgetter
from uuid import UUID

from django.db import OperationalError, connection, transaction
from django.dispatch import Signal
from uuid_utils.compat import uuid7

from config.database.group_commit import Handler, is_conflict, writes
from config.models import Environment
from events.counts import storage
from events.models import Event
from events.recording.rows import Identity, NewEvent, identity, insert, stored

events_stored = Signal()
"""Sent inside the transaction, with `environment` and `events`: the new ones, as NewEvent."""


class Outcome(StrEnum):
    """The result of recording one event."""

    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"
    CONFLICT = "conflict"


def new_id() -> UUID:
    return uuid7()


def record(events: Sequence[NewEvent], environment: Environment) -> list[Outcome]:
    """Store the events that are not stored yet, and return an outcome for each, in order.

    The same id with the same environment, user and name is a duplicate, and with others a conflict.
    If PostgreSQL aborts the transaction because of a conflict with another transaction, it is tried
    once more.
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
    """Record one event, in one transaction with the events that other threads record at the same
    time.
    """
    return writes.submit(_SINGLES, (event, environment))


def record_each(singles: Sequence[tuple[NewEvent, Environment]]) -> list[Outcome | Exception]:
    """Record events as `record_one` does, together, and return the outcome or the error of each."""
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
    identify = identity()
    first_of = {identify(event): event for event in reversed(events)}
    # In the order of ids, so that two calls with common ids wait for each other without a deadlock.
    candidates = sorted(first_of.values(), key=attrgetter("id.int"))
    old = insert(candidates, environment.pk, is_attempt=is_attempt)
    fresh = [event for event in candidates if identify(event) not in old] if old else candidates
    if fresh:
        events_stored.send(sender=Event, environment=environment, events=fresh)
        storage.add_counts(
            Counter((environment.pk, event.name, storage.quarter_of(event.timestamp)) for event in fresh)
        )
    if len(fresh) == len(events):
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
    """Return the environment, the user and the name of the stored events that have these identities."""
    if not old:
        return {}
    identify, found = identity(), stored(old).only("environment_id", "user_id", "name")
    return {identify(event): (event.environment_id, event.user_id, event.name) for event in found}
