"""Taking events out of the table, the oldest first and a bounded number at a time, and out of the
counts with them.
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
"""Events by the id of an environment, their name, and the quarter of an hour."""

# The ORM cannot say which rows it has deleted: one that somebody else removes meanwhile counts for
# them. The place of a row leads to it directly, and holds while the row is locked; by their ids,
# PostgreSQL would search the whole table.
_ROWS = f"DELETE FROM {Event._meta.db_table} WHERE {{}} RETURNING environment_id, name, timestamp"  # noqa: S608 (no data)
_DELETE = {
    "postgresql": (RawSQL("ctid", ()), _ROWS.format("ctid = ANY (ARRAY({}))")),
    "sqlite": (RawSQL("rowid", ()), _ROWS.format("rowid IN ({})")),
}


@dataclass(frozen=True, slots=True)
class Removed:
    """Events that are gone, as they were counted, and the moment of the newest of them."""

    counted: Counted
    newest: datetime


def remove_oldest(events: EventQuerySet, *, since: datetime | None = None) -> Removed | None:
    """Delete the oldest of these events in the caller's transaction, at most AT_ONCE; None where
    there are none.

    `since` is the newest that the call before this one has removed: the search begins behind the
    dead rows. All who remove lock rows in the order of time, so that they wait for each other and
    never in a circle.
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


def discount(counted: Counted) -> None:
    """Take what was removed from the counts: the last thing to do in its transaction."""
    storage.add({which: -number for which, number in counted.items()})


def several(number: int, what: str) -> str:
    """For reports of what is gone."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _moment(stored: datetime) -> datetime:
    """SQLite's rows hold UTC and do not say so."""
    return stored if stored.tzinfo else stored.replace(tzinfo=UTC)
