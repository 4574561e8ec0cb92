"""Deleting events from the table, the oldest first and a limited number at a time, and from the
counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.db import connection
from django.db.models.expressions import RawSQL

from config.database.engines import Engine, engine, is_distributed
from config.database.two_phases import commit_in_two_phases
from events.counts import storage
from events.models import Event, EventQuerySet, has_key

AT_ONCE = 5000

Counted = Counter[tuple[int, str, int]]
"""Numbers of events by the id of an environment, the name, and the quarter of an hour."""

# The ORM cannot return which rows it has deleted: a row that another transaction deletes meanwhile
# counts for that one. A row's physical place leads to it directly, and is stable while the row is
# locked. By ids, PostgreSQL would search the whole table.
_ROWS = f"DELETE FROM {Event._meta.db_table} WHERE {{}} RETURNING environment_id, name, timestamp"  # noqa: S608 (no data)
_DELETE = {
    Engine.POSTGRESQL: (RawSQL("ctid", ()), _ROWS.format("ctid = ANY (ARRAY({}))")),
    Engine.SQLITE: (RawSQL("rowid", ()), _ROWS.format("rowid IN ({})")),
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
    oldest = rest.order_by("timestamp", "pk")
    deleted = _delete_by_key(oldest) if is_distributed() else _delete_by_place(oldest)
    rows = [(environment_id, name, _moment(stored)) for environment_id, name, stored in deleted]
    if not rows:
        return None
    counted = Counter((environment_id, name, storage.quarter_of(moment)) for environment_id, name, moment in rows)
    return Removed(counted, max(moment for *_, moment in rows))


def _delete_by_place(oldest: EventQuerySet) -> list[tuple[Any, ...]]:
    place, delete = _DELETE[engine()]
    chosen = oldest.annotate(place=place).values("place")[:AT_ONCE].select_for_update()
    statement, parameters = chosen.query.sql_with_params()
    return _rows(delete.format(statement), parameters)


def _delete_by_key(oldest: EventQuerySet) -> list[tuple[Any, ...]]:
    """Delete by ids and users, because places on several servers say nothing.

    This takes two statements, because Citus locks no rows of a query on several servers. If another transaction deletes
    all of the chosen rows in between, others are chosen.
    """
    while keys := [*oldest.values_list("pk", "user_id")[:AT_ONCE]]:
        condition, parameters = has_key(keys)
        if rows := _rows(_ROWS.format(condition), parameters):
            return rows
    return []


def _rows(statement: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
    return rows


def subtract_counts(counted: Counted) -> None:
    """Subtract deleted events from the counts. Call it last in the transaction."""
    commit_in_two_phases()
    storage.add_counts({name_and_quarter: -number for name_and_quarter, number in counted.items()})


def format_count(number: int, noun: str) -> str:
    """Return a number with its noun, such as `1,000 events`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _moment(stored: datetime) -> datetime:
    """Return an aware datetime: SQLite returns naive ones, in UTC."""
    return stored if stored.tzinfo else stored.replace(tzinfo=UTC)
