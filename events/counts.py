"""Counts of events by name and quarter of an hour, kept with the events themselves: each change in the transaction that
makes it true.

Not here: how counts are asked for (`count_queries`).
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from django.db import connection

from events.models import EventCount

QUARTER = timedelta(minutes=15)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_STRIPES = 16
_ROWS_A_STATEMENT = 1000

Counts = Mapping[tuple[int, str, int], int]
"""By the id of an environment, the name of an event, and the quarter."""


def quarter_of(moment: datetime) -> int:
    """The number of quarters of an hour since 1970 began in UTC."""
    return (moment - _EPOCH) // QUARTER


def add(counts: Counts) -> None:
    """Add to what is stored, in the caller's transaction; a negative number takes away.

    Call it last: the rows stay locked until the transaction ends. Which stripe it is is drawn by lot: two transactions
    mostly lock rows of their own. SQLite has one writer at a time, and needs one stripe.
    """
    stripe = random.randrange(_STRIPES) if connection.vendor == "postgresql" else 0  # noqa: S311 (no secret)
    # Sorted, so that two transactions which lock the same rows do so in the same order.
    rows = [(*which, stripe, count) for which, count in sorted(counts.items())]
    table = EventCount._meta.db_table
    with connection.cursor() as cursor:
        for at in range(0, len(rows), _ROWS_A_STATEMENT):
            some = rows[at : at + _ROWS_A_STATEMENT]
            # The ORM can only replace what stands there.
            statement = (
                f"INSERT INTO {table} (environment_id, name, quarter, stripe, count) "  # noqa: S608 (no data)
                f"VALUES {', '.join(['(%s, %s, %s, %s, %s)'] * len(some))} "
                "ON CONFLICT (environment_id, name, quarter, stripe) "
                f"DO UPDATE SET count = {table}.count + excluded.count"
            )
            cursor.execute(statement, [value for row in some for value in row])
