"""The rows of the counts: which quarter a moment is in, adding and taking away, and putting stripes
together.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest
from django.core.management import call_command
from django.db import connection, transaction
from django.db.models import Sum
from django.test.utils import CaptureQueriesContext

from config.models import Environment
from events.counts import storage
from events.counts.storage import QUARTER, add_counts, merge_stripes, quarter_of, start_of
from events.models import EventCount
from tests.conftest import NOON

pytestmark = pytest.mark.django_db

NOW = quarter_of(NOON)
LONG_AGO = NOW - 1000
on_postgresql = pytest.mark.skipif(
    connection.vendor != "postgresql", reason="SQLite has one writer at a time, and one stripe"
)


def test_quarter__of_a_moment__is_the_one_that_holds_it() -> None:
    for moment, quarter in [
        (datetime(1970, 1, 1, tzinfo=UTC), 0),
        (datetime(1970, 1, 1, 0, 14, 59, 999999, UTC), 0),
        (datetime(1970, 1, 1, 0, 15, tzinfo=UTC), 1),
        (datetime(1969, 12, 31, 23, 59, 59, 999999, UTC), -1),
        (datetime(1969, 12, 31, 23, 45, tzinfo=UTC), -1),
        (datetime(2026, 1, 31, 12, tzinfo=UTC), 1966512),
        (datetime(1, 1, 1, tzinfo=UTC), -69039552),
        (datetime(9999, 12, 31, 23, 59, 59, 999999, UTC), 281558111),
    ]:
        assert quarter_of(moment) == quarter, (moment, quarter)
        assert start_of(quarter) <= moment, (moment, quarter)
        assert moment - start_of(quarter) < QUARTER, (moment, quarter)


def stripes(environment: Environment, name: str = "see") -> dict[tuple[int, int], int]:
    """Return the stored counts by quarter and stripe."""
    rows = EventCount.objects.filter(environment=environment, name=name)
    return {(quarter, stripe): count for quarter, stripe, count in rows.values_list("quarter", "stripe", "count")}


def store(environment: Environment, quarter: int, *by_stripe: int, name: str = "see") -> None:
    """Rows as they come about: the first has stripe 0."""
    EventCount.objects.bulk_create(
        EventCount(environment=environment, name=name, quarter=quarter, stripe=stripe, count=count)
        for stripe, count in enumerate(by_stripe)
    )


def total(environment: Environment) -> int:
    total: int = EventCount.objects.filter(environment=environment).aggregate(sum=Sum("count"))["sum"]
    return total


def test_add__again_and_again__adds_up(production: Environment, staging: Environment) -> None:
    names = ["see", "buy", "100 %s", "é 😀", "'\"\\"]
    for number in (3, 4, -5):
        add_counts({(which.pk, name, NOW): number for which in (staging, production) for name in names})
    sums = EventCount.objects.values_list("environment", "name", "quarter").annotate(sum=Sum("count"))
    assert set(sums) == {(which.pk, name, NOW, 2) for which in (staging, production) for name in names}


def test_add__more_rows_than_a_statement_takes__adds_them_all(production: Environment) -> None:
    add_counts({(production.pk, f"name {at}", NOW - at): at for at in range(2500)})
    assert EventCount.objects.count() == 2500
    assert total(production) == sum(range(2500))


def test_add__nothing__does_nothing() -> None:
    add_counts({})
    assert not EventCount.objects.exists()


@on_postgresql
def test_add__many_transactions__spread_over_stripes(production: Environment) -> None:
    for _ in range(200):
        add_counts({(production.pk, "see", NOW): 1})
    stored = stripes(production)
    assert len(stored) == 16
    assert sum(stored.values()) == 200


def test_fold__stripes_of_past_hours__become_one(production: Environment, staging: Environment) -> None:
    store(production, LONG_AGO, 1, 2, 3)
    store(production, LONG_AGO + 1, 5)
    store(production, LONG_AGO, 0, 7, name="buy")
    store(staging, LONG_AGO, 10, 20)
    merge_stripes(NOON)
    expected = {(LONG_AGO, 0): 6, (LONG_AGO + 1, 0): 5} if connection.vendor == "postgresql" else None
    assert total(production) == 18
    assert total(staging) == 30
    if expected:
        assert stripes(production) == expected
        assert stripes(production, "buy") == {(LONG_AGO, 0): 7}
        assert stripes(staging) == {(LONG_AGO, 0): 30}


def test_fold__what_counts_nothing__goes(production: Environment) -> None:
    store(production, LONG_AGO, 0)
    store(production, LONG_AGO + 1, 1)
    assert merge_stripes(NOON) == "merged 1 rows of past hours"
    assert stripes(production) == {(LONG_AGO + 1, 0): 1}


@on_postgresql
def test_fold__stripes_that_come_to_nothing__go(production: Environment) -> None:
    store(production, LONG_AGO, 4, -4)
    store(production, LONG_AGO + 1, 0, -2, 2, 0)
    merge_stripes(NOON)
    assert stripes(production) == {}


def test_fold__the_last_hour__stays_as_it_is(production: Environment) -> None:
    store(production, NOW, 1, 2)
    store(production, NOW - 4, 0, 0, 3)
    store(production, NOW - 5, 0)
    merge_stripes(NOON)
    assert stripes(production) == {(NOW, 0): 1, (NOW, 1): 2, (NOW - 4, 0): 0, (NOW - 4, 1): 0, (NOW - 4, 2): 3}


def test_fold__more_rows_than_a_transaction_takes__takes_several(
    production: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "_ROWS_A_TRANSACTION", 4)
    for at in range(10):
        store(production, LONG_AGO + at, 0)
    store(production, LONG_AGO + 10, 1)
    with CaptureQueriesContext(connection) as queries:
        merge_stripes(NOON)
    assert sum("DELETE" in query["sql"] for query in queries) == 4  # 4, 4, 2, and a last look
    assert stripes(production) == {(LONG_AGO + 10, 0): 1}


def test_maintain__folds_the_counts(production: Environment, capsys: pytest.CaptureFixture[str]) -> None:
    store(production, LONG_AGO, 0)
    call_command("maintain")
    assert "counts of events: merged 1 rows of past hours\n" in capsys.readouterr().out
    assert stripes(production) == {}


@contextmanager
def held_by_another(environment: Environment, quarter: int) -> Iterator[None]:
    """A transaction of another thread has added to a row, stripe 1, and commits after the block."""
    has_added, may_commit = threading.Event(), threading.Event()

    def add_and_wait() -> None:
        try:
            with transaction.atomic():
                EventCount.objects.filter(environment=environment, quarter=quarter, stripe=1).update(count=100)
                has_added.set()
                may_commit.wait(30)
        finally:
            connection.close()

    thread = threading.Thread(target=add_and_wait)
    thread.start()
    assert has_added.wait(30)
    try:
        yield
    finally:
        may_commit.set()
        thread.join(30)
    assert not thread.is_alive()


@on_postgresql
@pytest.mark.django_db(transaction=True)
def test_fold__rows_that_somebody_is_changing__are_left_and_waited_for_by_nobody() -> None:
    production = Environment.objects.get(key="production")
    store(production, LONG_AGO, 1, 2, 3)
    store(production, LONG_AGO + 1, 1, 2)
    with held_by_another(production, LONG_AGO):
        merge_stripes(NOON)
        assert stripes(production) == {(LONG_AGO, 0): 4, (LONG_AGO, 1): 2, (LONG_AGO + 1, 0): 3}
    merge_stripes(NOON + timedelta(minutes=1))
    assert stripes(production) == {(LONG_AGO, 0): 104, (LONG_AGO + 1, 0): 3}
