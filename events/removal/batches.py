"""Deleting events from the table, the oldest first and a limited number at a time, and from the
counts.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from config.database.engines import is_distributed
from config.database.selects import delete_returning
from config.database.two_phases import commit_in_two_phases
from events.counts import storage
from events.expressions import HasKey
from events.models import Event, EventQuerySet

AT_ONCE = 5000
_COUNTED_BY = ("environment", "name", "timestamp")

Counted = Counter[tuple[int, str, int]]
"""Numbers of events by the id of an environment, the name, and the quarter of an hour."""


@dataclass(frozen=True, slots=True)
class Removed:
    """The numbers of deleted events, and the timestamp of the newest of them."""

    counted: Counted
    newest: datetime


def remove_oldest(events: EventQuerySet, *, since: datetime | None = None) -> Removed | None:
    """Delete the oldest of these events in the caller's transaction, at most AT_ONCE. Return None
    if there are none.

    `since` is the `newest` of the previous call, so that the search skips dead rows. Every deletion
    locks rows in the order of time, so that two of them wait for each other without a deadlock.
    """
    rest = events if since is None else events.filter(timestamp__gte=since)
    oldest = rest.order_by("timestamp", "pk")
    delete = _delete_by_key if is_distributed() else _delete_by_place
    if not (deleted := delete(oldest)):
        return None
    counted = Counter((environment_id, name, storage.quarter_of(moment)) for environment_id, name, moment in deleted)
    return Removed(counted, max(moment for *_, moment in deleted))


def _delete_by_place(oldest: EventQuerySet) -> list[tuple[Any, ...]]:
    return delete_returning(oldest[:AT_ONCE], *_COUNTED_BY)


def _delete_by_key(oldest: EventQuerySet) -> list[tuple[Any, ...]]:
    """Delete by ids and users, because places on several servers say nothing.

    This takes two statements, because Citus locks no rows of a query on several servers. If another transaction deletes
    all of the chosen rows in between, others are chosen.
    """
    while keys := [*oldest.values_list("pk", "user_id")[:AT_ONCE]]:
        if deleted := delete_returning(Event.objects.filter(HasKey(keys)), *_COUNTED_BY):
            return deleted
    return []


def subtract_counts(counted: Counted) -> None:
    """Subtract deleted events from the counts. Call it last in the transaction."""
    commit_in_two_phases()
    storage.add_counts({name_and_quarter: -number for name_and_quarter, number in counted.items()})


def format_count(number: int, noun: str) -> str:
    """Return a number with its noun, such as `1,000 events`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
