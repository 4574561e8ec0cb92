"""The page of the events of one name, and the chart above the list."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from config.models import Environment
from events.admin.descriptions import describe_stopped
from events.admin.hourly_chart import read_hourly_chart
from events.admin.name_page import address_of_event
from events.counts.stopped import Stopped
from experiments.metrics.changes import create_metric
from tests.admin import sign_in, text_of
from tests.conftest import ACTOR, NOON
from tests.events.admin.test_events import explain
from tests.factories import EventFactory, ExperimentFactory

LIST = "/admin/events/event/"
HOUR = timedelta(hours=1)
WRITE = {"actor": ACTOR, "now": NOON}


@pytest.fixture
def now(monkeypatch: Any) -> datetime:
    monkeypatch.setattr(timezone, "now", lambda: NOON)
    return NOON


def steady(name: str, since: int) -> None:
    """Store an event in each of a hundred hours."""
    for hour in range(since, since + 100):
        EventFactory(name=name, timestamp=NOON - hour * HOUR)


# --- the chart --------------------------------------------------------------------------------------------------------


def test_hours__are_whole_and_end_now(production: Environment, django_assert_max_num_queries: Any) -> None:
    for minutes in (0, 1, 61, 47 * 60, 48 * 60 + 1):
        EventFactory(name="see", timestamp=NOON + timedelta(minutes=30 - minutes))
    EventFactory(name="buy", timestamp=NOON)
    with django_assert_max_num_queries(1):
        chart = read_hourly_chart(production, NOON + timedelta(minutes=30), 48 * HOUR, name="see")
    counts = {bar.start: bar.count for bar in chart.bars if bar.count}
    assert counts == {NOON - 47 * HOUR: 1, NOON - HOUR: 1, NOON: 2}
    assert (len(chart.bars), chart.bars[-1].start, chart.total, chart.busiest) == (48, NOON, "4", "2")
    assert [(bar.top, bar.height) for bar in chart.bars[-2:]] == [(32, 32), (0, 64)]
    assert [(day.start.day, day.count, day.is_whole) for day in chart.days] == [
        (31, "3", False), (30, "0", True), (29, "1", False),
    ]  # fmt: skip


def test_hours__of_all_events__name_the_most_frequent(production: Environment) -> None:
    for name, count in (("see", 3), ("buy", 2), ("bye", 1)):
        EventFactory.create_batch(count, name=name, timestamp=NOON)
    chart = read_hourly_chart(production, NOON, 24 * HOUR, max_names=2)
    assert (chart.names, chart.others, chart.total) == ([("see", "3"), ("buy", "2")], 1, "6")
    empty = read_hourly_chart(production, NOON + timedelta(days=9), 24 * HOUR, max_names=2)
    assert (empty.total, empty.busiest, empty.names) == ("0", "0", [])


def test_list__first_page__has_the_chart_of_what_is_listed(now: datetime, production: Environment) -> None:
    EventFactory.create_batch(2, name="see", timestamp=NOON)
    EventFactory(name="buy", timestamp=NOON)
    client = sign_in()
    assert "Events received 3 in the last 48 hours" in text_of(client.get(LIST))
    one = client.get(LIST, {"event": "see"})
    assert "see 2 in the last 48 hours" in text_of(one)
    assert f'href="{address_of_event("see")}"' in one.content.decode()
    for query in ({"userId": "u"}, {"event": "see", "userId": "u"}, {"p": "2"}, {"event": "see", "properties.a": "1"}):
        assert "in the last 48 hours" not in text_of(client.get(LIST, query)), query


# --- the page ---------------------------------------------------------------------------------------------------------


def test_page__of_any_name__is_one_link_away(subtests: pytest.Subtests, now: datetime, production: Environment) -> None:
    client = sign_in()
    for name in ["see", "a/b?c#d&e=f", "..", "käufe", "100 %"]:
        with subtests.test(name=name):
            event = EventFactory(name=name, timestamp=NOON, properties={"plan": "pro", "paid": True})
            for page in (LIST, f"{LIST}{event.pk}/change/"):
                assert f'href="{address_of_event(name)}"'.replace("&", "&amp;") in client.get(page).content.decode(), (
                    page
                )
            shown = text_of(client.get(address_of_event(name)))
            assert f"{name} Show in the list of events" in shown
            assert "1 in the last 7 days, by their timestamps. The newest is of 31 Jan 2026, 12:00 ." in shown
            assert (
                "of the newest 1 event Property Values In Most often paid yes or no 100 % true plan text 100 % pro"
                in shown
            )


def test_page__links_to_the_metrics_and_experiments_that_use_it(now: datetime, production: Environment) -> None:
    create_metric(key="spent", type="count", event="buy", **WRITE)
    create_metric(key="rate", type="ratio", event="see", denominator={"event": "buy"}, **WRITE)
    create_metric(key="other", type="count", event="see", **WRITE)
    ExperimentFactory(key="green", metrics=["buy", "spent"])
    shown = sign_in().get(address_of_event("buy"))
    assert [use.key for use in shown.context["uses"]] == ["rate", "spent", "green"]
    assert "draft experiment, which measures the share of users with this event" in text_of(shown)
    restricted = sign_in("events.view_event", username="eve").get(address_of_event("buy"))
    assert "No metric that you may view uses this event." in text_of(restricted)


def test_page__of_an_event_that_has_stopped__says_since_when_and_by_which_rule(
    now: datetime, production: Environment
) -> None:
    steady("buy", since=24)
    client = sign_in()
    shown = text_of(client.get(address_of_event("buy")))
    assert (
        "The event buy has stopped: Production has received none since 30 Jan 2026, 12:15 UTC. Before that, 100 of 168 "
        "hours had some, and the longest pause was 60 minutes." in shown
    )
    assert "An event has stopped if most hours of the seven days up to its last one" in shown
    EventFactory(name="buy", timestamp=NOON)
    assert "has stopped:" not in text_of(client.get(address_of_event("buy")))


def test_describe_stopped__says_the_pause_roughly() -> None:
    for pause, words in [
        (timedelta(minutes=15), "15 minutes"),
        (timedelta(minutes=105), "105 minutes"),
        (timedelta(hours=8, minutes=15), "about 8 hours"),
        (timedelta(hours=50), "about 2 days"),
    ]:
        stopped = Stopped(datetime(2026, 1, 2, tzinfo=UTC), 100, pause)
        described = describe_stopped({"b": stopped, "a": stopped}, "Production")
        assert described.count(f"the longest pause was {words}.") == 2, pause
        assert described.startswith(
            "The event a has stopped: Production has received none since 2 Jan 2026, 00:00 UTC."
        ), pause


def test_page__of_what_cannot_be_a_name__is_refused(subtests: pytest.Subtests, db: None) -> None:
    client = sign_in()
    for query, words in [
        ({}, "event: Name an event."),
        ({"event": "e" * 201}, "event: A name has at most 200 characters. This one has 201."),
        ({"event": "nul\0"}, "event: A name cannot contain this character: U+0000."),
    ]:
        with subtests.test(query=query):
            response = client.get(f"{LIST}named/", query)
            assert response.status_code == 400
            assert words in text_of(response)


def test_page__of_an_unknown_event__says_so(production: Environment, staging: Environment) -> None:
    EventFactory(name="see", environment=staging)
    assert "Production has no event of this name." in text_of(sign_in().get(address_of_event("see")))


def test_page__without_the_right_to_see_events__is_refused(db: None) -> None:
    assert sign_in("flags.view_flag").get(address_of_event("see")).status_code == 403


def test_page__any_number_of_events__takes_the_same_queries(
    production: Environment, django_assert_max_num_queries: Any
) -> None:
    client = sign_in()
    for number in (1, 300):
        EventFactory.create_batch(number, name="see", timestamp=NOON)
        # session, user, environments, counts, silence, newest events, metrics, experiments
        with django_assert_max_num_queries(8) as queries:
            client.get(address_of_event("see"))
        read = [query["sql"] for query in queries.captured_queries if 'FROM "events_event"' in query["sql"]]
        assert ["LIMIT 200" in statement for statement in read] == [True]


@pytest.mark.one_server("the plan of PostgreSQL is read")
def test_page__reads_counts_and_the_newest_events__through_indexes(production: Environment) -> None:
    for at in range(600):
        EventFactory(name="see" if at % 30 == 0 else f"e{at % 40}", timestamp=NOON - at * HOUR)
    client = sign_in()
    with CaptureQueriesContext(connection) as queries:
        client.get(address_of_event("see"))
    statements = [query["sql"] for query in queries.captured_queries]
    [newest] = [statement for statement in statements if 'FROM "events_event"' in statement]
    assert "event_by_name" in explain(newest)
    counted = [statement for statement in statements if "events_eventcount" in statement]
    assert len(counted) == 2
    for statement in counted:
        plan = explain(statement)
        assert "Seq Scan" not in plan.replace("Seq Scan on config", ""), json.dumps(plan)
        assert "SCAN U0" not in plan
        # The rows of a subquery have the name of the table, too.
        assert plan.count("SCAN events_eventcount") == plan.count("CO-ROUTINE events_eventcount")
