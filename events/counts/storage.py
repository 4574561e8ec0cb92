"""Writing the counts of events by name and quarter of an hour, in the transactions that change the events."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta

from django.db import connection, transaction
from django.db.models import Q

from config.database.insertion import adding, insert
from config.database.selects import delete_returning
from events.models import EventCount

QUARTER = timedelta(minutes=15)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECONDS = QUARTER // timedelta(seconds=1)
_A_DAY = timedelta(days=1) // QUARTER
_MERGED_AFTER = timedelta(hours=1)
"""Older quarters get few new events, so their stripes are merged."""
_STRIPES = 16
_ROWS_A_TRANSACTION = 10_000

CountKey = tuple[int, str, int]
"""The id of an environment, the name of the event, and the quarter."""
Counts = Mapping[CountKey, int]

_UNIQUE = ("environment_id", "name", "quarter", "stripe")
_OR_ADD = adding(EventCount, _UNIQUE, ["count"])


def quarter_of(timestamp: datetime) -> int:
    """Return the number of quarters of an hour since 1970 began in UTC."""
    since = timestamp - _EPOCH
    # A third of the time of `since // QUARTER`.
    return since.days * _A_DAY + since.seconds // _SECONDS


def start_of(quarter: int) -> datetime:
    """Return the time at which a quarter begins."""
    return _EPOCH + quarter * QUARTER


def add_counts(counts: Counts) -> None:
    """Add to the stored counts, in the caller's transaction. Negative numbers subtract.

    Call it last, because the rows stay locked until the transaction ends. The stripe is random, so that transactions
    mostly lock different rows. SQLite has one writer at a time, and needs one stripe.
    """
    _add(counts, random.randrange(_STRIPES) if connection.vendor == "postgresql" else 0)  # noqa: S311 (no secret)


def _add(counts: Counts, stripe: int) -> None:
    # Sorted, so that two transactions lock common rows in the same order.
    rows = [(*key, stripe, count) for key, count in sorted(counts.items())]
    insert(EventCount, (*_UNIQUE, "count"), rows, _OR_ADD)


def merge_stripes(now: datetime) -> str:
    """Merge the stripes of past hours and delete rows of 0, in short transactions, and return a report."""
    until = quarter_of(now - _MERGED_AFTER)
    # Twice, because merged rows may add up to 0.
    return f"merged {sum(_merge(until)) + sum(_merge(until)):,} rows of past hours"


def _merge(until: int) -> Iterator[int]:
    """Yield the number of merged rows of each transaction.

    Rows that another transaction has locked are left for the next time, so that there is no deadlock.
    """
    rows = EventCount.objects.filter(Q(stripe__gt=0) | Q(count=0), quarter__lt=until)
    merged = _ROWS_A_TRANSACTION
    while merged == _ROWS_A_TRANSACTION:
        with transaction.atomic():
            deleted = delete_returning(rows[:merged], "environment", "name", "quarter", "count", skip_locked=True)
            counts = Counter[CountKey]()
            for environment_id, name, quarter, count in deleted:
                counts[environment_id, name, quarter] += count
            _add({key: count for key, count in counts.items() if count}, stripe=0)
        merged = len(deleted)
        yield merged
