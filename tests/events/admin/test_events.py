"""Events in the admin: found by exact parameters, through the indexes, and never counted."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from config.models import Environment
from events.models import Event
from events.recording import NewEvent, new_id, record
from tests.admin import sign_in, text_of
from tests.conftest import NOON
from tests.plans import analyze

LIST = "admin:events_event_changelist"


def store(environment: Environment, *events: tuple[str, str], **properties: Any) -> list[NewEvent]:
    """Store events by user and name, a minute apart, the last one the newest."""
    made = [
        NewEvent(new_id(), user, name, NOON + timedelta(minutes=at), NOON + timedelta(minutes=at), properties)
        for at, (user, name) in enumerate(events)
    ]
    record(made, environment)
    return made


def shown(response: Any) -> list[tuple[str, str]]:
    return [(event.user_id, event.name) for event in response.context["cl"].result_list]


@pytest.fixture
def events(production: Environment) -> list[NewEvent]:
    return store(production, ("u1", "see"), ("u2", "see"), ("u1", "buy"))


def test_event_list__newest_first__of_the_current_environment(events: list[NewEvent], staging: Environment) -> None:
    store(staging, ("other", "see"))
    assert shown(sign_in().get(reverse(LIST))) == [("u1", "buy"), ("u2", "see"), ("u1", "see")]


def test_event_list__parameters__match_exactly(subtests: pytest.Subtests, events: list[NewEvent]) -> None:
    client = sign_in()
    for query, expected in [
        ("userId=u1", [("u1", "buy"), ("u1", "see")]),
        ("userId=U1", []),
        ("userId=u", []),
        ("event=see", [("u2", "see"), ("u1", "see")]),
        ("event=se", []),
        ("userId=u1&event=see", [("u1", "see")]),
        ("from=2026-01-31T12:01:00Z", [("u1", "buy"), ("u2", "see")]),
        ("to=2026-01-30", []),
        ("from=2026-01-31&to=2026-01-31", [("u1", "buy"), ("u2", "see"), ("u1", "see")]),
        ("experimentId=button", []),
    ]:
        with subtests.test(query=query):
            assert shown(client.get(f"{reverse(LIST)}?{query}")) == expected


def test_event_list__by_experiment__finds_what_names_it(production: Environment) -> None:
    store(production, ("u1", "see"), experimentId="button", variant="blue")
    store(production, ("u2", "see"))
    store(production, ("u3", "see"), experimentId="button", variant="red")
    client = sign_in()
    assert shown(client.get(reverse(LIST) + "?experimentId=button")) == [("u3", "see"), ("u1", "see")]
    response = client.get(reverse(LIST) + "?experimentId=button&variant=blue")
    assert shown(response) == [("u1", "see")]
    [row] = re.findall(r"<tr[^>]*>(?:(?!</tr>).)*u1(?:(?!</tr>).)*</tr>", response.content.decode(), re.DOTALL)
    assert [word in row for word in ("button", "blue", "red")] == [True, True, False]


def test_event_list__variant_without_its_experiment__is_refused_in_the_words_of_the_api(
    events: list[NewEvent], api: Any
) -> None:
    [detail] = api.get("/v1/events?variant=blue").json()["error"]["details"]
    response = sign_in().get(reverse(LIST) + "?variant=blue")
    assert detail["message"] in text_of(response)
    assert shown(response) == []


def test_event_list__a_date_that_does_not_exist__is_refused_in_the_words_of_the_api(
    events: list[NewEvent], api: Any
) -> None:
    [detail] = api.get("/v1/events?from=2026-02-30").json()["error"]["details"]
    response = sign_in().get(reverse(LIST) + "?from=2026-02-30")
    assert detail["message"] in text_of(response)
    assert shown(response) == []


def test_event_list__never_counts__and_takes_the_same_queries_for_any_number(
    production: Environment, django_assert_max_num_queries: Any
) -> None:
    store(production, *[(f"u{at}", "see") for at in range(120)])
    client = sign_in()
    with django_assert_max_num_queries(5) as queries:  # session, user, environments, events, counts by hour
        first = client.get(reverse(LIST))
    assert not [query["sql"] for query in queries.captured_queries if "COUNT(" in query["sql"].upper()]
    pages = [first, client.get(reverse(LIST) + "?p=2"), client.get(reverse(LIST) + "?p=3")]
    assert [len(shown(page)) for page in pages] == [50, 50, 20]
    assert len({user for page in pages for user, _ in shown(page)}) == 120


@pytest.mark.one_server("the plan of PostgreSQL is read")
def test_event_list__reads_through_an_index__without_sorting(
    subtests: pytest.Subtests, production: Environment
) -> None:
    store(production, *[(f"u{at % 50}", "see" if at % 30 == 0 else "buy") for at in range(900)])
    client = sign_in()
    for query, index in [("", "event_by_time"), ("?userId=u1", "event_by_user"), ("?event=see", "event_by_name")]:
        with subtests.test(query=query, index=index):
            with CaptureQueriesContext(connection) as queries:
                client.get(reverse(LIST) + query)
            [statement] = [query["sql"] for query in queries.captured_queries if 'FROM "events_event"' in query["sql"]]
            plan = explain(statement)
            assert index in plan
            assert "Sort" not in plan
            assert "TEMP B-TREE" not in plan


def explain(statement: str) -> str:
    explanation = "EXPLAIN QUERY PLAN" if connection.vendor == "sqlite" else "EXPLAIN"
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            analyze(Event)
            # So few rows are sorted faster than read in order. The test is whether they can be read
            # in order.
            for way in ("seqscan", "bitmapscan", "sort"):
                cursor.execute(f"SET LOCAL enable_{way} = off")
        cursor.execute(f"{explanation} {statement}")
        return "\n".join(str(row[-1]) for row in cursor.fetchall())


def test_event_page__shows_its_properties(production: Environment) -> None:
    [event] = store(production, ("u1", "buy"), revenue=19.99, note="<b>Grüße</b>")
    response = sign_in().get(reverse("admin:events_event_change", args=[event.id]))
    text = text_of(response)
    assert "revenue 19.99" in text
    assert "note <b>Grüße</b>" in text
    assert "<b>Grüße</b>" not in response.content.decode()


def test_event__is_never_written_by_hand(events: list[NewEvent]) -> None:
    client = sign_in()
    page = [str(events[0].id)]
    assert client.post(reverse("admin:events_event_change", args=page), {"name": "x"}).status_code == 403
    assert client.post(reverse("admin:events_event_delete", args=page), {"post": "yes"}).status_code == 403
    assert client.get(reverse("admin:events_event_add")).status_code == 403
    assert Event.objects.count() == 3


def test_event__of_another_environment__is_not_shown(staging: Environment) -> None:
    [event] = store(staging, ("u1", "buy"))
    assert sign_in().get(reverse("admin:events_event_change", args=[event.id])).status_code == 302
