"""Counts of events by name and quarter of an hour, kept with the events themselves: each change in
the transaction that makes it true.

Not here: how counts are asked for (`count_queries`).
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta

from django.db import connection

from config.database.insertion import insert
from events.models import EventCount

QUARTER = timedelta(minutes=15)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECONDS = QUARTER // timedelta(seconds=1)
_A_DAY = timedelta(days=1) // QUARTER
_SETTLED = timedelta(hours=1)
"""What is older than this gets few new events, so its stripes are put together."""
_STRIPES = 16
_ROWS_A_TRANSACTION = 10_000

Counts = Mapping[tuple[int, str, int], int]
"""By the id of an environment, the name of an event, and the quarter."""

_TABLE = EventCount._meta.db_table
_COLUMNS = ("environment_id", "name", "quarter", "stripe", "count")
_OR_ADD = f"ON CONFLICT (environment_id, name, quarter, stripe) DO UPDATE SET count = {_TABLE}.count + excluded.count"
# Rows that somebody is changing are left for the next time, so that nobody waits for anybody in a
# circle.
_FOLD = f"""
    WITH old AS (
        DELETE FROM {_TABLE} WHERE ctid = ANY (ARRAY(
            SELECT ctid FROM {_TABLE} WHERE quarter < %s AND (stripe > 0 OR count = 0)
            LIMIT %s FOR UPDATE SKIP LOCKED
        ))
        RETURNING environment_id, name, quarter, count
    ), new AS (
        INSERT INTO {_TABLE} ({", ".join(_COLUMNS)})
        SELECT environment_id, name, quarter, 0, SUM(count) FROM old
        GROUP BY environment_id, name, quarter HAVING SUM(count) <> 0 ORDER BY environment_id, name, quarter
        {_OR_ADD}
    )
    SELECT COUNT(*) FROM old
"""  # noqa: S608 (no data)
_DELETE_EMPTY = f"""
    DELETE FROM {_TABLE} WHERE rowid IN (SELECT rowid FROM {_TABLE} WHERE quarter < %s AND count = 0 LIMIT %s)
"""  # noqa: S608 (no data)


def quarter_of(moment: datetime) -> int:
    """The number of quarters of an hour since 1970 began in UTC."""
    since = moment - _EPOCH
    return since.days * _A_DAY + since.seconds // _SECONDS  # in a third of the time that `since // QUARTER` takes


def start_of(quarter: int) -> datetime:
    """The moment at which a quarter begins."""
    return _EPOCH + quarter * QUARTER


def add(counts: Counts) -> None:
    """Add to what is stored, in the caller's transaction; a negative number takes away.

    Call it last: the rows stay locked until the transaction ends. Which stripe it is is drawn by
    lot: two transactions mostly lock rows of their own. SQLite has one writer at a time, and needs
    one stripe.
    """
    stripe = random.randrange(_STRIPES) if connection.vendor == "postgresql" else 0  # noqa: S311 (no secret)
    # Sorted, so that two transactions which lock the same rows do so in the same order.
    insert(EventCount, _COLUMNS, [(*which, stripe, count) for which, count in sorted(counts.items())], _OR_ADD)


def fold(now: datetime) -> str:
    """Put the stripes of past hours together and drop what counts nothing, some rows in each
    transaction.
    """
    until = quarter_of(now - _SETTLED)
    # Once more, for what was put together may have come to nothing.
    return f"put together {sum(_fold(until)) + sum(_fold(until)):,} rows of past hours"


def _fold(until: int) -> Iterator[int]:
    """How many rows went, transaction by transaction: each statement is one."""
    went = _ROWS_A_TRANSACTION
    while went == _ROWS_A_TRANSACTION:
        with connection.cursor() as cursor:
            if connection.vendor == "postgresql":
                cursor.execute(_FOLD, [until, _ROWS_A_TRANSACTION])
                [went] = cursor.fetchone()
            else:
                cursor.execute(_DELETE_EMPTY, [until, _ROWS_A_TRANSACTION])
                went = cursor.rowcount
        yield went
