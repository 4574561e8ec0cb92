"""How a query of events is narrowed: by experiment, variant and properties, each through an index."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase

from config.documents import is_same
from config.models import Environment
from events.api.filters import EventFilter
from events.expressions import PropertyIs
from events.models import Event
from events.recording import NewEvent, new_id, record
from tests.answers import data, error
from tests.cases import undone
from tests.conftest import NOON
from tests.events.admin.test_events import explain, store
from tests.factories import ExperimentFactory

# --- experiments and variants ----------------------------------------------------------------------------------------


def test_query__variant__is_that_of_the_experiment_named(
    subtests: pytest.Subtests, api: Any, production: Environment
) -> None:
    store(production, ("u1", "see"), experimentId="button", variant="blue")
    store(production, ("u2", "see"), experimentId="button", variant="red")
    store(production, ("u3", "see"), experimentId="other", variant="blue")
    store(production, ("u4", "see"), experimentId="button")
    store(production, ("u5", "see"), variant="blue")
    for query, found in [
        ("experimentId=button&variant=blue", {"u1"}),
        ("experimentId=button&variant=red", {"u2"}),
        ("experimentId=button&variant=BLUE", set()),
        ("experimentId=button&variant=blu", set()),
        ("experimentId=other&variant=blue", {"u3"}),
        ("experimentId=button", {"u1", "u2", "u4"}),
        ("experimentId=button&variant=blue&userId=u2", set()),
        ("experimentId=button&variant=blue&event=see&userId=u1", {"u1"}),
    ]:
        with subtests.test(query=query):
            assert {each["userId"] for each in data(api.get(f"/v1/events?{query}"))} == found


@pytest.mark.parametrize("spelling", ["id", "key"])
def test_query__experiment_by_id_or_key__finds_its_events_however_they_spell_it(
    api: Any, production: Environment, staging: Environment, spelling: str
) -> None:
    button = ExperimentFactory(environment=production, key="button")
    elsewhere = ExperimentFactory(environment=staging, key="button")
    store(production, ("u1", "see"), experimentId="button", variant="blue")
    store(production, ("u2", "see"), experimentId=str(button.pk), variant="blue")
    store(production, ("u3", "see"), experimentId=str(elsewhere.pk), variant="blue")
    store(production, ("u4", "see"), experimentId="Button", variant="blue")
    asked = {"id": str(button.pk), "key": "button"}[spelling]
    for query in ({"experimentId": asked}, {"experimentId": asked, "variant": "blue"}):
        assert {event["userId"] for event in data(api.get("/v1/events", query))} == {"u1", "u2"}


@pytest.mark.parametrize("is_known", [True, False])
def test_query__experiment_by_any_spelling_of_its_id__finds_events_of_any_and_shows_them_as_sent(
    api: Any, production: Environment, is_known: bool
) -> None:
    pk = str(ExperimentFactory(environment=production, key="button").pk if is_known else uuid4())
    spellings = [pk, pk.upper(), pk.replace("-", "")]
    for number, spelling in enumerate(spellings):
        store(production, (f"u{number}", "see"), experimentId=spelling)
    for asked in [*spellings, "button"] if is_known else spellings:
        events = data(api.get("/v1/events", {"experimentId": asked}))
        assert {event["properties"]["experimentId"] for event in events} == {*spellings}


def test_query__experiment_of_the_longest_key__finds_its_events_by_id(api: Any, production: Environment) -> None:
    experiment = ExperimentFactory(environment=production, key="k" * 100)
    store(production, ("u1", "see"), experimentId="k" * 100)
    store(production, ("u2", "see"), experimentId=str(experiment.pk))
    store(production, ("u3", "see"), experimentId="k" * 101)
    found = data(api.get("/v1/events", {"experimentId": str(experiment.pk)}))
    assert {event["userId"] for event in found} == {"u1", "u2"}


def test_query__key_that_is_the_id_of_another__means_the_id(api: Any, production: Environment) -> None:
    first = ExperimentFactory(environment=production, key="first")
    second = ExperimentFactory(environment=production, key=str(first.pk))
    store(production, ("u1", "see"), experimentId="first")
    store(production, ("u2", "see"), experimentId=str(first.pk))
    store(production, ("u3", "see"), experimentId=str(second.pk))
    for asked, users in ((first.key, {"u1", "u2"}), (str(first.pk), {"u1", "u2"}), (str(second.pk), {"u3"})):
        assert {event["userId"] for event in data(api.get("/v1/events", {"experimentId": asked}))} == users


def test_query__long_variant__is_compared_whole(api: Any, production: Environment) -> None:
    long = "v" * 150
    store(production, ("u", "see"), experimentId="button", variant=long)
    for variant, found in ((long, 1), (long[:101], 0), (long[:101] + "z" * 49, 0), (long[:100], 0)):
        assert len(data(api.get("/v1/events", {"experimentId": "button", "variant": variant}))) == found


def test_query__parameter_that_cannot_be_answered__is_refused_by_name(subtests: pytest.Subtests, api: Any) -> None:
    for query, field, word in [
        ("variant=blue", "variant", "experimentId"),
        ("variant=blue&userId=u", "variant", "experimentId"),
        ("properties.plan=pro", "properties.plan", "userId"),
        ("properties.plan=pro&experimentId=e&from=2026-01-01", "properties.plan", "userId"),
        ("properties.plan=" + "x" * 2001 + "&userId=u", "properties.plan", "2000"),
        ("variant=" + "x" * 2001 + "&experimentId=e", "variant", "2000"),
        ("properties.plan=a%00b&userId=u", "properties.plan", "ull"),
        ("properties.plan=&userId=u", "properties.plan", "leave it out"),
        ("properties.plan=a&properties.plan=b&userId=u", "properties.plan", "once"),
        ("properties.plan=%FF&userId=u", "properties.plan", "UTF-8"),
        ("properties.pl%00an=x&userId=u", "properties.pl\0an", "Unknown"),
        ("properties=x&userId=u", "properties", "properties.<name>"),
        ("Properties.plan=x&userId=u", "Properties.plan", "Unknown"),
        ("&".join(f"properties.p{at}=x" for at in range(11)) + "&userId=u", "properties.p10", "10"),
    ]:
        with subtests.test(query=query, field=field):
            found = error(api.get(f"/v1/events?{query}"), 400, "invalid_parameter")
            assert [detail["field"] for detail in found["details"]] == [field]
            assert word in found["details"][0]["message"]


def test_query__name_that_is_not_utf8__is_refused(api: Any) -> None:
    error(api.get("/v1/events?properties.%FF=x&userId=u"), 400, "invalid_parameter")


# --- properties ------------------------------------------------------------------------------------------------------

VALUES: dict[str, Any] = {
    "text": "pro", "digits": "1", "one": 1, "one and nothing": 1.0, "float": 0.1, "large": 1e20, "negative": -5,
    "on": True, "off": False, "none": None, "word": "true", "word for none": "null", "list": ["pro", 1],
    "object": {"plan": "pro"}, "quoted": '"pro"', "exact": 2**53 + 1, "empty": "", "spaced": " 1",
}  # fmt: skip


def test_query__property__is_the_text_or_what_it_spells(
    subtests: pytest.Subtests, api: Any, production: Environment
) -> None:
    for user, value in VALUES.items():
        store(production, (user, "see"), plan=value)
    for text, found in [
        ("pro", {"text"}), ("Pro", set()), ('"pro"', {"quoted"}), ("1", {"digits", "one", "one and nothing"}),
        ("1.0", {"one", "one and nothing"}), ("1e0", {"one", "one and nothing"}), ("01", set()), (" 1", {"spaced"}),
        ("0.1", {"float"}), ("1E-1", {"float"}), ("1e20", {"large"}), ("100000000000000000000", {"large"}),
        ("-5", {"negative"}), ("-5.0", {"negative"}), ("+5", set()), ("true", {"on", "word"}), ("false", {"off"}),
        ("True", set()), ("null", {"none", "word for none"}), ("0", set()), ('["pro", 1]', set()), ("NaN", set()),
        ("9007199254740993", {"exact"}), ("9007199254740992", set()), ("1e999", set()), ("1" * 400, set()),
    ]:  # fmt: skip
        with subtests.test(text=text):
            store(production, ("without", "see"), other=text)
            response = api.get("/v1/events", {"event": "see", "properties.plan": text})
            assert {each["userId"] for each in data(response)} == found


def test_query__property_of_any_name__is_found_at_the_top_alone(
    subtests: pytest.Subtests, api: Any, production: Environment
) -> None:
    for name in ["a.b", "a b", "é", "0", "-1", "", '"', "\\", "a'b", "$", "[0]", "%s", "🙂", "a__b", "\t"]:
        for way in [json.dumps, lambda value: json.dumps(value, ensure_ascii=False)]:
            with undone(subtests, name=name, way=way):
                store(production, ("below", "see"), outer={name: "x"}, **{name + "x": "x"})
                [event] = store(production, ("top", "see"), **{name: "x"})
                table, document = Event._meta.db_table, way({name: "x"})
                with connection.cursor() as cursor:  # as it may have been written by earlier versions
                    key = event.id if connection.vendor == "postgresql" else event.id.hex
                    cursor.execute(f"UPDATE {table} SET properties = %s WHERE id = %s", [document, key])
                response = api.get(f"/v1/events?event=see&properties.{quote(name, safe='')}=x")
                assert [each["userId"] for each in data(response)] == ["top"]


def test_query__several_properties__must_all_be_met(api: Any, production: Environment) -> None:
    store(production, ("u1", "see"), plan="pro", seats=5, beta=True)
    store(production, ("u2", "see"), plan="pro", seats=6, beta=True)
    store(production, ("u1", "buy"), plan="pro", seats=5)
    for query, found in (
        ("event=see&", ["u1"]),
        ("userId=u1&", ["u1", "u1"]),
        ("userId=u1&properties.beta=true&", ["u1"]),
    ):
        response = api.get(f"/v1/events?{query}properties.plan=pro&properties.seats=5")
        assert [each["userId"] for each in data(response)] == found


def test_query__property__pages_as_any_other(api: Any, production: Environment) -> None:
    store(production, *[(f"u{at}", "see") for at in range(5)], plan="pro")
    first = api.get("/v1/events?event=see&properties.plan=pro&limit=3")
    address = first["Link"].partition("<")[2].partition(">")[0]
    assert len(data(api.get(address))) == 2


SCALARS = (
    st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False) | st.booleans() | st.none()
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=4)
    | st.sampled_from(["1", "1.0", "true", "null", 2**53, 2**53 + 1, float(2**53), 0.0, -0.0, 1, True])
)  # fmt: skip


class TestPropertyIs(TestCase):
    @given(SCALARS, SCALARS)
    def test_any_scalar__asked_as_json_writes_it__is_found_as_equal_documents_are(self, kept: Any, asked: Any) -> None:
        environment = Environment.objects.default()
        text = asked if isinstance(asked, str) else json.dumps(asked)
        event = NewEvent(new_id(), "u", "n", NOON, NOON, {"p": kept})
        record([event], environment)
        spelled = _read(text)
        expected = is_same(kept, text) or (not isinstance(spelled, str) and is_same(kept, spelled))
        assert Event.objects.filter(PropertyIs("p", text), pk=event.id).exists() == expected


def _read(text: str) -> Any:
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return text if text.strip() != text or isinstance(value, (list, dict)) else value


# --- indexes ---------------------------------------------------------------------------------------------------------


@pytest.mark.one_server("the plan of PostgreSQL is read")
def test_query__each_filter__reads_its_index_from_where_the_page_begins(
    subtests: pytest.Subtests, api: Any, production: Environment
) -> None:
    # What a filter asks for is rare enough that no other index costs about the same.
    users = [(f"u{at % 50}", "buy" if at % 20 else "see") for at in range(1_800)]
    store(production, *users[:100], experimentId="button", variant="blue", plan="pro")
    store(production, *users[100:])
    for query, index in [
        ({}, "event_by_time"),
        ({"from": "2026-01-01"}, "event_by_time"),
        ({"userId": "u1"}, "event_by_user"),
        ({"event": "see"}, "event_by_name"),
        ({"experimentId": "button"}, "event_by_experiment"),
        ({"experimentId": "button", "variant": "blue"}, "event_by_variant"),
        ({"event": "see", "properties.plan": "pro"}, "event_by_name"),
        ({"userId": "u1", "properties.plan": "pro"}, "event_by_user"),
    ]:
        for cursor in [False, True]:
            with subtests.test(query=query, index=index, cursor=cursor):
                plan = explain(_statement_of(api, {**query, "limit": "1"}, is_later=cursor))
                assert index in plan
                assert "Sort" not in plan
                assert "TEMP B-TREE" not in plan
                if cursor:
                    assert ('ROW("timestamp", id) <' in plan) or ("(timestamp,id)<(?,?)" in plan)


def _statement_of(api: Any, query: dict[str, str], *, is_later: bool) -> str:
    address = "/v1/events"
    if is_later:
        first = api.get(address, query)
        address, query = first["Link"].partition("<")[2].partition(">")[0], {}
    with CaptureQueriesContext(connection) as queries:
        api.get(address, query)
    [statement] = [each["sql"] for each in queries.captured_queries if 'FROM "events_event"' in each["sql"]]
    return statement


def test_filter__without_parameters__is_everything(production: Environment) -> None:
    store(production, ("u", "see"))
    assert EventFilter({}, queryset=Event.objects.all(), environment=production).qs.count() == 1
