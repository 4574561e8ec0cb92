"""The counts always agree with the table, while several threads record, erase, purge and merge."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import product
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from django.db import OperationalError, connection, transaction
from django.db.models import Sum
from psycopg.errors import DeadlockDetected

from config.database.engines import is_distributed
from config.models import Environment
from events import removal
from events.counts.intervals import Interval, intervals
from events.counts.queries import count_events
from events.counts.storage import merge_stripes, quarter_of, start_of
from events.models import Event, EventCount
from events.recording import NewEvent, new_id, record, record_one
from events.removal import erase_user, plan_purge, purge

ZONES = ("UTC", "Europe/Zurich", "America/St_Johns", "Asia/Kathmandu")
SPAN = timedelta(days=3)
LAST = datetime(2026, 3, 30, 12, tzinfo=UTC)
"""On the day before, the clocks of Zurich went forward."""
FIRST = LAST - SPAN


def of_table() -> Counter[tuple[int, str, int]]:
    events = Event.objects.order_by().values_list("environment_id", "name", "timestamp")
    return Counter((where, name, quarter_of(moment)) for where, name, moment in events)


def of_counts() -> Counter[tuple[int, str, int]]:
    sums = EventCount.objects.values_list("environment_id", "name", "quarter").annotate(sum=Sum("count"))
    return Counter({(where, name, quarter): int(count) for where, name, quarter, count in sums if count})


@contextmanager
def one_moment() -> Iterator[None]:
    """Make all reads in the block see the same state, even if others write (PostgreSQL).

    On Citus, each server has a snapshot of its own. There, those that change counts wait meanwhile.
    """
    with transaction.atomic(), connection.cursor() as cursor:
        if is_distributed():
            cursor.execute("LOCK TABLE events_eventcount IN SHARE MODE")
        else:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        yield


def interval_of(moment: datetime, interval: Interval, zone: ZoneInfo) -> str:
    return moment.astimezone(zone).strftime("%Y-%m-%d" if interval is Interval.DAY else "%Y-%m-%dT%H%z")


def assert_answers_agree(environment: Environment) -> None:
    """Assert that the counts by hour and day of some zones equal those of the events themselves."""
    events = list(Event.objects.filter(environment=environment).values_list("name", "timestamp"))
    for interval, zone in product(Interval, map(ZoneInfo, ZONES)):
        of = intervals(interval, zone, FIRST - SPAN, LAST + SPAN)
        counted = count_events(environment, of)
        answered = {
            (interval_of(start_of(start), interval, zone), name): count
            for start, occurrences in zip(of.starts, counted.series, strict=True)
            for name, count in occurrences.by_name.items()
        }
        assert answered == Counter((interval_of(moment, interval, zone), name) for name, moment in events)
        assert counted.overall.total == len(events)


class Walk:
    """Random steps, each through the function that the service calls."""

    def __init__(self, seed: str) -> None:
        self.draw = random.Random(seed)
        self.environments = list(Environment.objects.order_by("pk"))

    def environment(self) -> Environment:
        return self.draw.choice(self.environments)

    def event(self) -> NewEvent:
        """One of so few ids, users and names that much of it is there already, as the same event or
        another.
        """
        draw = self.draw
        event_id = UUID(int=draw.randrange(1, 400)) if draw.random() < 0.7 else new_id()
        moment = FIRST + SPAN * draw.random()
        return NewEvent(event_id, f"user {draw.randrange(6)}", draw.choice("abc"), moment, LAST, {})

    def step(self) -> None:
        [step] = self.draw.choices([self.batch, self.single, self.erase, self.purge, self.merge], [8, 4, 2, 1, 2])
        step()

    def batch(self) -> None:
        record([self.event() for _ in range(self.draw.randrange(1, 60))], self.environment())

    def single(self) -> None:
        record_one(self.event(), self.environment())

    def erase(self) -> None:
        erase_user(f"user {self.draw.randrange(6)}", self.environment())

    def purge(self) -> None:
        purge(plan_purge(self.environment(), FIRST + SPAN * self.draw.random() / 3))

    def merge(self) -> None:
        merge_stripes(LAST)


@pytest.fixture
def _small_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(removal, "BATCH_SIZE", 7)


@pytest.mark.django_db
@pytest.mark.usefixtures("_small_transactions")
@pytest.mark.parametrize("seed", ["one", "two", "three"])
def test_counts__after_each_step_of_a_random_walk__are_those_of_the_table(seed: str) -> None:
    walk = Walk(seed)
    seen = 0
    for number in range(120):
        walk.step()
        assert of_counts() == of_table(), number
        seen = max(seen, Event.objects.count())
        if number % 20 == 0:
            assert_answers_agree(walk.environment())
    assert seen > 200
    merge_stripes(LAST)
    merge_stripes(LAST)
    assert of_counts() == of_table()
    assert EventCount.objects.filter(quarter__lt=quarter_of(LAST) - 4, count=0).count() == 0


@pytest.mark.django_db
def test_counts__transaction_that_is_undone__are_undone_with_it() -> None:
    walk = Walk("undone")
    walk.batch()
    before = of_counts()
    with transaction.atomic():
        walk.batch()
        walk.erase()
        assert of_counts() != before
        transaction.set_rollback(True)
    assert of_counts() == before == of_table()


class WalkingThread(threading.Thread):
    """A walk beside others. A step that met a deadlock was answered with 503 and undone: it is left
    out.
    """

    def __init__(self, seed: str, steps: int) -> None:
        super().__init__(name=seed)
        self.steps = steps
        self.failures: list[Exception] = []
        self.deadlocks = 0

    def run(self) -> None:
        walk = Walk(self.name)
        try:
            for _ in range(self.steps):
                self.take(walk)
        except Exception as failure:
            self.failures.append(failure)
        finally:
            connection.close()

    def take(self, walk: Walk) -> None:
        try:
            walk.step()
        except OperationalError as failure:
            if not isinstance(failure.__cause__, DeadlockDetected):
                raise
            self.deadlocks += 1


@pytest.mark.skipif(
    connection.vendor == "sqlite", reason="the SQLite of tests is in memory, where nobody waits for a lock"
)
@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("_small_transactions")
def test_counts__while_many_write_at_once__are_those_of_the_table_at_every_moment() -> None:
    threads = [WalkingThread(f"thread {number}", steps=25) for number in range(4)]
    for thread in threads:
        thread.start()
    looks = 0
    while any(thread.is_alive() for thread in threads):
        with one_moment():
            assert of_counts() == of_table()
        looks += 1
    assert [failure for thread in threads for failure in thread.failures] == []
    assert sum(thread.deadlocks for thread in threads) < 5
    assert looks > 3
    assert of_counts() == of_table()
    assert_answers_agree(Environment.objects.get(key="production"))
