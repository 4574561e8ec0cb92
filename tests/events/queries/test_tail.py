"""Events in the order of their arrival: none is missed, whatever commits when, and reading stays cheap."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from config.database.commit_order import live_watermark
from config.models import Environment
from events import queries
from events.queries import Tail, TailFilter, read_tail
from tests.conftest import NOON
from tests.events.admin.test_events import explain
from tests.factories import EventFactory, ExperimentFactory

ALL = TailFilter()


def names(arrivals: Tail) -> list[str]:
    return [event.name for event in arrivals.events]


@pytest.mark.django_db(transaction=True)
def test_arrivals__since_a_watermark__are_what_was_stored_since(django_assert_max_num_queries: Any) -> None:
    production = Environment.objects.get(key="production")
    EventFactory(name="old")
    first = read_tail(production, ALL, None)
    assert first == Tail([], first.watermark, False)
    EventFactory(name="late", timestamp=NOON - timedelta(days=400), received_at=NOON)
    EventFactory(name="new", timestamp=NOON, received_at=NOON + timedelta(seconds=1))
    EventFactory(name="elsewhere", environment=Environment.objects.get(key="staging"))
    with django_assert_max_num_queries(2):
        second = read_tail(production, ALL, first.watermark)
    assert names(second) == ["new", "late"]
    assert names(read_tail(production, ALL, second.watermark)) == []


@pytest.mark.django_db(transaction=True)
@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has one writer at a time")
def test_arrivals__of_a_transaction_that_commits_late__are_not_missed() -> None:
    production = Environment.objects.get(key="production")
    is_stored, may_commit = threading.Event(), threading.Event()

    def store_slowly() -> None:
        with transaction.atomic():
            EventFactory(name="slow")
            is_stored.set()
            may_commit.wait(30)
        connection.close()

    watermark = live_watermark("events_event")
    thread = threading.Thread(target=store_slowly)
    thread.start()
    assert is_stored.wait(30)
    EventFactory(name="quick")
    before = read_tail(production, ALL, watermark)
    assert names(before) == ["quick"]
    may_commit.set()
    thread.join(30)
    assert names(read_tail(production, ALL, before.watermark)) == ["slow"]


@pytest.mark.django_db
def test_arrivals__with_filters__are_those_that_match(subtests: pytest.Subtests, production: Environment) -> None:
    experiment = ExperimentFactory(key="button")
    watermark = live_watermark("events_event")
    EventFactory(user_id="a", name="see")
    EventFactory(user_id="b", name="see")
    EventFactory(user_id="b", name="buy")
    EventFactory(user_id="c", name="x", properties={"experimentId": "button", "variant": "control"})
    EventFactory(user_id="d", name="x", properties={"experimentId": str(experiment.pk), "variant": "green"})
    for wanted, expected in [
        (TailFilter(event="see"), ["a", "b"]),
        (TailFilter(user_id="b"), ["b", "b"]),
        (TailFilter(event="buy", user_id="b"), ["b"]),
        (TailFilter(experiment="button"), ["c", "d"]),
        (TailFilter(experiment="button", variant="green"), ["d"]),
        (TailFilter(experiment="other"), []),
    ]:
        with subtests.test(wanted=wanted):
            arrivals = read_tail(production, wanted, watermark)
            assert sorted(event.user_id for event in arrivals.events) == expected


@pytest.mark.django_db
def test_arrivals__of_more_than_can_be_shown__are_the_newest(production: Environment, monkeypatch: Any) -> None:
    monkeypatch.setattr(queries, "MAX_IN_TAIL", 3)
    watermark = live_watermark("events_event")
    for at in range(5):
        EventFactory(name=f"e{at}", timestamp=NOON + timedelta(seconds=at))
    arrivals = read_tail(production, ALL, watermark)
    assert (len(arrivals.events), arrivals.has_more) == (3, True)
    if connection.vendor == "sqlite":
        assert names(arrivals) == ["e4", "e3", "e2"]
    monkeypatch.setattr(queries, "MAX_SEARCHED", 2)
    assert len(read_tail(production, ALL, watermark).events) == 2


@pytest.mark.one_server("the plan of PostgreSQL is read")
@pytest.mark.django_db
def test_arrivals__are_read_through_the_index_of_their_arrival(
    subtests: pytest.Subtests, production: Environment
) -> None:
    for at in range(300):
        EventFactory(name=f"e{at % 3}", user_id="u")
    for wanted in [ALL, TailFilter(event="e1"), TailFilter(user_id="u", experiment="button")]:
        with subtests.test(wanted=wanted):
            with CaptureQueriesContext(connection) as queries:
                read_tail(production, wanted, live_watermark("events_event"))
            [statement] = [query["sql"] for query in queries.captured_queries if "LIMIT 5000" in query["sql"]]
            plan = explain(statement.strip())
            if connection.vendor == "sqlite":
                assert "SEARCH events_event USING INTEGER PRIMARY KEY (rowid>?)" in plan
            else:
                assert "event_by_arrival" in plan
                assert "Sort" not in plan
