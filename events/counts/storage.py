"""Writing the counts of events by name and quarter of an hour, in the transactions that change the
events.

`events.counts.queries` reads them.
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
"""Older quarters get few new events, so their stripes are merged."""
_STRIPES = 16
_ROWS_A_TRANSACTION = 10_000

Counts = Mapping[tuple[int, str, int], int]
"""By the id of an environment, the name of the event, and the quarter."""

_TABLE = EventCount._meta.db_table
_COLUMNS = ("environment_id", "name", "quarter", "stripe", "count")
_OR_ADD = f"ON CONFLICT (environment_id, name, quarter, stripe) DO UPDATE SET count = {_TABLE}.count + excluded.count"
# Rows that another transaction has locked are left for the next time, so that there is no deadlock.
_MERGE = f"""
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
    """Return the number of quarters of an hour since 1970 began in UTC."""
    since = moment - _EPOCH
    # A third of the time of `since // QUARTER`.
    return since.days * _A_DAY + since.seconds // _SECONDS


def start_of(quarter: int) -> datetime:
    """Return the time at which a quarter begins."""
    return _EPOCH + quarter * QUARTER


def add_counts(counts: Counts) -> None:
    """Add to the stored counts, in the caller's transaction. Negative numbers subtract.

    Call it last, because the rows stay locked until the transaction ends. The stripe is random, so
    that transactions mostly lock different rows. SQLite has one writer at a time, and needs one
    stripe.
    """
    stripe = random.randrange(_STRIPES) if connection.vendor == "postgresql" else 0  # noqa: S311 (no secret)
    # Sorted, so that two transactions lock common rows in the same order.
    rows = [(*name_and_quarter, stripe, count) for name_and_quarter, count in sorted(counts.items())]
    insert(EventCount, _COLUMNS, rows, _OR_ADD)


def merge_stripes(now: datetime) -> str:
    """Merge the stripes of past hours and delete rows of 0, in short transactions, and return a
    report.
    """
    until = quarter_of(now - _SETTLED)
    # Twice, because merged rows may add up to 0.
    return f"merged {sum(_merge(until)) + sum(_merge(until)):,} rows of past hours"


def _merge(until: int) -> Iterator[int]:
    """Yield the number of deleted rows of each transaction, which is one statement."""
    deleted = _ROWS_A_TRANSACTION
    while deleted == _ROWS_A_TRANSACTION:
        with connection.cursor() as cursor:
            if connection.vendor == "postgresql":
                cursor.execute(_MERGE, [until, _ROWS_A_TRANSACTION])
                [deleted] = cursor.fetchone()
            else:
                cursor.execute(_DELETE_EMPTY, [until, _ROWS_A_TRANSACTION])
                deleted = cursor.rowcount
        yield deleted
