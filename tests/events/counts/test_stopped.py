"""Events that were received steadily and have stopped, by hand and by the plan of the database."""

from __future__ import annotations

import random
from collections.abc import Iterable
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from config.models import Environment
from events.counts.stopped import HOURS_WATCHED, Stopped, stopped_events
from events.counts.storage import QUARTER, quarter_of, start_of
from events.models import EventCount
from tests.cases import undone
from tests.conftest import NOON
from tests.plans import analyze

pytestmark = pytest.mark.django_db

NOW = quarter_of(NOON)
A_DAY, AN_HOUR = 96, 4
WEEK = 7 * A_DAY


def store(
    environment: Environment, quarters: Iterable[int], name: str = "see", count: int = 1, stripe: int = 0
) -> None:
    """Store counts by how many quarters ago they were."""
    EventCount.objects.bulk_create(
        EventCount(environment=environment, name=name, quarter=NOW - ago, stripe=stripe, count=count)
        for ago in quarters
    )


def find(environment: Environment, name: str = "see") -> Stopped | None:
    return stopped_events(environment, [name], NOON).get(name)


def hourly(since: int, *, hours: int = HOURS_WATCHED) -> range:
    """An event in each of the hours before a time."""
    return range(since, since + hours * AN_HOUR, AN_HOUR)


def test_stopped__hourly_event__after_three_hours(subtests: pytest.Subtests, production: Environment) -> None:
    for since, has_stopped in [
        (0, False), (4, False), (12, False), (13, True), (A_DAY, True), (3 * A_DAY, True), (400 * A_DAY, True),
    ]:  # fmt: skip
        with undone(subtests, since=since, has_stopped=has_stopped):
            store(production, hourly(since))
            found = find(production)
            assert (found is not None) is has_stopped
            if found:
                assert found == Stopped(start_of(NOW - since + 1), HOURS_WATCHED, timedelta(hours=1))


def test_stopped__event_of_every_quarter__is_silent_for_two_hours_first(production: Environment) -> None:
    store(production, range(8, 8 + WEEK))
    assert find(production) is None
    EventCount.objects.all().delete()
    store(production, range(9, 9 + WEEK))
    assert find(production) == Stopped(start_of(NOW - 8), HOURS_WATCHED, QUARTER)


def test_stopped__nightly_pause__is_what_silence_is_compared_with(production: Environment) -> None:
    """Sixteen hours a day, so eight hours and a quarter lie between two of them."""
    by_day = [ago for ago in range(0, WEEK) if ago % A_DAY < 16 * AN_HOUR]
    pause = 8 * AN_HOUR + 1
    store(production, [ago + 3 * pause for ago in by_day])
    assert find(production) is None
    EventCount.objects.all().delete()
    store(production, [ago + 3 * pause + 1 for ago in by_day])
    found = find(production)
    assert found is not None
    assert (found.hours, found.longest_pause) == (7 * 16, pause * QUARTER)


def test_stopped__event_of_less_than_most_hours__was_never_steady(
    subtests: pytest.Subtests, production: Environment
) -> None:
    for hours, is_steady in [(84, False), (85, True), (20, False)]:
        with undone(subtests, hours=hours, is_steady=is_steady):
            store(production, hourly(A_DAY, hours=hours))
            assert (find(production) is not None) is is_steady


def test_stopped__several_events_within_an_hour__are_one_hour(production: Environment) -> None:
    store(production, range(A_DAY + 1, A_DAY + 1 + 84 * AN_HOUR))
    assert find(production) is None
    store(production, [A_DAY])
    found = find(production)
    assert found is not None
    assert found.hours == 85


def test_stopped__earlier_weeks_and_the_future__do_not_matter(production: Environment) -> None:
    store(production, hourly(A_DAY, hours=50))
    store(production, hourly(A_DAY + WEEK))
    assert find(production) is None
    store(production, [-1, -A_DAY], name="early")
    store(production, hourly(A_DAY), name="early")
    assert find(production, "early") is not None


def test_stopped__stripes__are_added(production: Environment) -> None:
    store(production, hourly(A_DAY))
    store(production, [0], count=0)
    assert find(production) is not None
    store(production, [A_DAY - 2], count=3)
    store(production, [A_DAY - 2], count=-2, stripe=1)
    found = find(production)
    assert found is not None
    assert found.since == start_of(NOW - A_DAY + 3)


def test_stopped__several_names__are_one_query_and_of_one_environment(
    production: Environment, staging: Environment, django_assert_max_num_queries: Any
) -> None:
    names = ['a"b', "it's", "käufe", "a\\u0000b"]
    for name in names:
        store(production, hourly(A_DAY), name=name)
    store(production, hourly(0), name="alive")
    store(staging, hourly(A_DAY), name="elsewhere")
    with django_assert_max_num_queries(1):
        found = stopped_events(production, [*names, *names, "alive", "elsewhere", "never"], NOON)
    assert sorted(found) == sorted(names)
    with django_assert_max_num_queries(0):
        assert stopped_events(production, [], NOON) == {}


def test_stopped__random_counts__agree_with_a_loop(production: Environment) -> None:
    chance = random.Random(7)
    quarters = {
        f"e{at}": [ago for ago in range(chance.choice([0, 9, 40, 200]), 2 * WEEK) if chance.random() < (at + 1) / 40]
        for at in range(40)
    }
    for name, agos in quarters.items():
        store(production, agos, name=name)
    assert set(stopped_events(production, quarters, NOON)) == {
        name for name, agos in quarters.items() if agos and by_hand(agos)
    }


def by_hand(agos: list[int]) -> bool:
    watched = [ago for ago in sorted(agos) if ago < min(agos) + WEEK]
    hours = {(ago - watched[0]) // AN_HOUR for ago in watched}
    pause = max((later - ago for ago, later in pairwise(watched)), default=0)
    return len(hours) > 84 and watched[0] > max(8, 3 * pause)


def test_stopped__searches_the_primary_key__and_reads_no_event(production: Environment) -> None:
    for at in range(12):
        store(production, range(at, 4 * WEEK, 7), name=f"e{at}")
    with CaptureQueriesContext(connection) as queries:
        stopped_events(production, ["e1", "e9"], NOON)
    [statement] = [query["sql"] for query in queries.captured_queries if "events_eventcount" in query["sql"]]
    assert '"events_event"' not in statement
    plan = explain(statement)
    if connection.vendor == "sqlite":
        assert plan.count("SEARCH U0 USING") == 2
        assert "SCAN U0" not in plan
    else:
        scans = [line for line in plan.splitlines() if "on events_eventcount u0" in line]
        assert ["Index Scan" in line and "using events_eventcount_pkey" in line for line in scans] == [True, True], plan


def explain(statement: str) -> str:
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            analyze(EventCount)
            # So few rows are read faster as a whole. The test is whether they can be searched.
            for way in ("seqscan", "bitmapscan", "hashjoin", "mergejoin"):
                cursor.execute(f"SET LOCAL enable_{way} = off")
            cursor.execute(f"EXPLAIN {statement}")
        else:
            cursor.execute(f"EXPLAIN QUERY PLAN {statement}")
        return "\n".join(str(row[-1]) for row in cursor.fetchall())
