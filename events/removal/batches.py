"""Deleting events from the table, the oldest first and a limited number at a time, and from the
counts.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime

from django.db import connection
from django.db.models.expressions import RawSQL

from events.counts import storage
from events.models import Event, EventQuerySet

AT_ONCE = 5000

Counted = Counter[tuple[int, str, int]]
"""Numbers of events by the id of an environment, the name, and the quarter of an hour."""

# The ORM cannot return which rows it has deleted: a row that another transaction deletes meanwhile
# counts for that one. A row's physical place leads to it directly, and is stable while the row is
# locked. By ids, PostgreSQL would search the whole table.
_ROWS = f"DELETE FROM {Event._meta.db_table} WHERE {{}} RETURNING environment_id, name, timestamp"  # noqa: S608 (no data)
_DELETE = {
    "postgresql": (RawSQL("ctid", ()), _ROWS.format("ctid = ANY (ARRAY({}))")),
    "sqlite": (RawSQL("rowid", ()), _ROWS.format("rowid IN ({})")),
}


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
    place, delete = _DELETE[connection.vendor]
    oldest = rest.order_by("timestamp", "pk").annotate(place=place).values("place")[:AT_ONCE].select_for_update()
    chosen, parameters = oldest.query.sql_with_params()
    with connection.cursor() as cursor:
        cursor.execute(delete.format(chosen), parameters)
        rows = [(environment_id, name, _moment(stored)) for environment_id, name, stored in cursor.fetchall()]
    if not rows:
        return None
    counted = Counter((environment_id, name, storage.quarter_of(moment)) for environment_id, name, moment in rows)
    return Removed(counted, max(moment for *_, moment in rows))


def subtract_counts(counted: Counted) -> None:
    """Subtract deleted events from the counts. Call it last in the transaction."""
    storage.add_counts({name_and_quarter: -number for name_and_quarter, number in counted.items()})


def format_count(number: int, noun: str) -> str:
    """Return a number with its noun, such as `1,000 events`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _moment(stored: datetime) -> datetime:
    """Return an aware datetime: SQLite returns naive ones, in UTC."""
    return stored if stored.tzinfo else stored.replace(tzinfo=UTC)
