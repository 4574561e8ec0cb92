"""Purging old events: all before a time, unless something holds them, and by one process at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from config.database.locks import advisory_lock
from config.management.maintenance import tasks
from config.models import Environment
from events import removal
from events.models import Event
from events.recording import NewEvent, new_id, record
from events.removal import PURGE_LOCK, Hold, asking_for_holds, count_before, plan_purge, purge, purge_by_setting
from tests.conftest import NOON
from tests.events.counts.counting import real_counts, stored_counts
from tests.factories import EventFactory
from tests.plans import analyze

pytestmark = pytest.mark.django_db

A_MINUTE = timedelta(minutes=1)


def seconds_left() -> list[float]:
    """When those events happened that are still there."""
    return sorted((at - NOON).total_seconds() for at in Event.objects.values_list("timestamp", flat=True))


@pytest.fixture
def hold() -> Iterator[Callable[..., None]]:
    """Hold the events of an environment since a time."""
    listeners: list[Callable[..., Any]] = []

    def connect(of: Environment, *holds: Hold) -> None:
        def answer(*, environment: Environment, **_: Any) -> list[Hold]:
            return list(holds) if environment == of else []

        asking_for_holds.connect(answer, weak=False)
        listeners.append(answer)

    yield connect
    for listener in listeners:
        asking_for_holds.disconnect(listener)


def test_purge__events_around_the_moment__deletes_those_before_it_alone(production: Environment) -> None:
    for second in (-1000, -1, -0.000001, 0, 1):
        EventFactory(timestamp=NOON + timedelta(seconds=second))

    assert purge(plan_purge(production, NOON)) == 3
    assert seconds_left() == [0, 1]
    assert stored_counts() == real_counts()


def test_purge__another_environment__is_left_alone(production: Environment, staging: Environment) -> None:
    EventFactory(environment=staging, timestamp=NOON - A_MINUTE)

    assert purge(plan_purge(production, NOON)) == 0
    assert Event.objects.count() == 1


def test_purge__many_events__goes_by_bounded_transactions_the_oldest_first(
    production: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(removal, "BATCH_SIZE", 3)
    for at in range(10):
        EventFactory(timestamp=NOON - timedelta(seconds=at // 2))
    steps: list[tuple[int, list[float]]] = []

    assert purge(plan_purge(production, NOON + A_MINUTE), lambda number: steps.append((number, seconds_left()))) == 10
    assert steps == [
        (3, [-3, -2, -2, -1, -1, 0, 0]),
        (3, [-1, -1, 0, 0]),
        (3, [0]),
        (1, []),
    ]
    assert stored_counts() == real_counts()


def test_purge__interrupted__keeps_what_is_done_and_goes_on_the_next_time(
    production: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(removal, "BATCH_SIZE", 3)
    for at in range(7):
        EventFactory(timestamp=NOON - timedelta(seconds=at))

    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        purge(plan_purge(production, NOON + A_MINUTE), interrupt)
    assert Event.objects.count() == 4
    assert stored_counts() == real_counts()
    assert purge(plan_purge(production, NOON + A_MINUTE)) == 4


def test_purge__something_is_needed__stops_before_it(production: Environment, hold: Callable[..., None]) -> None:
    for second in range(-5, 1):
        EventFactory(timestamp=NOON + timedelta(seconds=second))
    later, earlier = Hold(NOON - timedelta(seconds=1), "b"), Hold(NOON - timedelta(seconds=3), "a")
    hold(production, later, earlier, Hold(NOON, "at the moment itself"))

    plan = plan_purge(production, NOON)
    assert plan.holds == [earlier, later]
    assert plan.obstacles() == [
        "A keeps 3 older events, from 2026-01-31T11:59:57.000000Z on.",
        "B keeps 1 older event, from 2026-01-31T11:59:59.000000Z on.",
    ]
    assert (plan.count(), purge(plan)) == (2, 2)
    assert seconds_left() == [-3, -2, -1, 0]
    assert plan_purge(production, NOON).count() == 0


def test_purge__needed_in_another_environment__is_deleted_here(
    production: Environment, staging: Environment, hold: Callable[..., None]
) -> None:
    EventFactory(timestamp=NOON - A_MINUTE)
    hold(staging, Hold(NOON - timedelta(days=1), "staging"))

    assert purge(plan_purge(production, NOON)) == 1


def test_count_before__any_moment__is_exact(
    subtests: pytest.Subtests, production: Environment, staging: Environment
) -> None:
    happened = [-1800.5, -1800, -900, -0.1, 0, 0.4, 0.5, 0.6, 900]
    for at in happened:
        EventFactory(timestamp=NOON + timedelta(seconds=at))
        EventFactory(environment=staging, timestamp=NOON + timedelta(seconds=at))
    for second in [-2000, -901, -900, -899, -1, 0, 0.5, 1, 899, 900, 901]:
        with subtests.test(second=second):
            assert count_before(production, NOON + timedelta(seconds=second)) == sum(at < second for at in happened)


@pytest.mark.one_server("the plan of PostgreSQL is read")
def test_purge__large_table__reaches_its_rows_by_index_and_place(production: Environment) -> None:
    if connection.vendor != "postgresql":
        pytest.skip("the planner of PostgreSQL is asked")
    record([NewEvent(new_id(), "u", "n", NOON + at * A_MINUTE, NOON, {}) for at in range(5000)], production)
    with CaptureQueriesContext(connection) as queries:
        assert purge(plan_purge(production, NOON + 100 * A_MINUTE)) == 100
    delete = next(query["sql"] for query in queries if query["sql"].startswith("DELETE"))
    analyze(Event)
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN {delete}")
        plan = "\n".join(line for (line,) in cursor.fetchall())
    assert "Tid Scan on events_event" in plan
    assert "Index Scan using event_by_time" in plan
    assert "Seq Scan" not in plan


class TestBySetting:
    """The periodic task."""

    def test_purge__no_days_set__does_nothing_and_says_so(self, production: Environment) -> None:
        EventFactory(timestamp=NOON - timedelta(days=10_000))

        assert purge_by_setting(NOON) == "nothing to do: EVENT_RETENTION_DAYS is not set"
        assert Event.objects.count() == 1

    def test_purge__days_set__deletes_what_is_older_everywhere_and_says_what_was_kept(
        self, production: Environment, staging: Environment, settings: Any, hold: Callable[..., None]
    ) -> None:
        settings.EVENT_RETENTION_DAYS = 30
        for environment in (production, staging):
            EventFactory(environment=environment, timestamp=NOON - timedelta(days=40))
            EventFactory(environment=environment, timestamp=NOON - timedelta(days=30))
        EventFactory(timestamp=NOON - timedelta(days=35))
        hold(production, Hold(NOON - timedelta(days=36), "experiment e"))

        assert purge_by_setting(NOON) == (
            "production: deleted 1 event from before 2025-12-26T12:00:00.000000Z. "
            "Experiment e keeps 1 older event, from 2025-12-26T12:00:00.000000Z on. "
            "staging: deleted 1 event from before 2026-01-01T12:00:00.000000Z."
        )
        assert Event.objects.count() == 3
        assert stored_counts() == real_counts()

    def test_purge__task__is_one_of_those_that_maintain_runs(self) -> None:
        assert tasks["purge of old events"] is purge_by_setting


@pytest.mark.django_db(transaction=True)
def test_purge__while_another_is_under_way__is_left_to_it(settings: Any) -> None:
    settings.EVENT_RETENTION_DAYS = 1
    EventFactory(timestamp=NOON - timedelta(days=2))
    with advisory_lock(PURGE_LOCK):
        assert purge_by_setting(NOON) == "skipped, because another purge is running"
    assert Event.objects.count() == 1
