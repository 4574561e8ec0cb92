"""The /v1/events operations, as a client sees them."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any
from urllib.parse import quote
from uuid import UUID, uuid4

import pytest
import time_machine

from config.timestamps import format_timestamp
from events.models import Event
from tests.answers import data, error, next_page
from tests.cases import undone
from tests.conftest import NOON
from tests.factories import EventFactory

ids_of_all = pytest.mark.one_server("an id belongs to one user on Citus")

FIELDS = ["id", "event", "userId", "timestamp", "receivedAt", "properties"]
ID = "01937a5e-9c1b-7d3a-8f00-4e1d2c3b4a59"
VIEW = {"event": "view", "userId": "u"}


def track(client: Any, **event: Any) -> dict[str, Any]:
    acknowledged: dict[str, Any] = data(client.post("/v1/events", {**VIEW, **event}), 202)
    assert list(acknowledged) == ["id", "status"]
    return acknowledged


def batch(client: Any, *events: Any) -> list[dict[str, Any]]:
    acknowledged: list[dict[str, Any]] = data(client.post("/v1/events/batch", {"events": list(events)}), 202)
    assert len(acknowledged) == len(events)
    return acknowledged


def stored(client: Any, query: str = "") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = data(client.get(f"/v1/events{query}"))
    return found


# --- track -----------------------------------------------------------------------------------------------------------


@pytest.mark.both_lanes
def test_track__name_and_user__is_accepted_with_an_id_and_the_time_of_receipt(api):
    with time_machine.travel(NOON, tick=False):
        acknowledged = track(api)
    assert acknowledged["status"] == "accepted"
    assert UUID(acknowledged["id"]).version == 7
    [record] = stored(api)
    assert list(record) == FIELDS
    assert record == {
        "id": acknowledged["id"],
        "event": "view",
        "userId": "u",
        "timestamp": "2026-01-31T12:00:00.000000Z",
        "receivedAt": "2026-01-31T12:00:00.000000Z",
        "properties": {},
    }


@pytest.mark.both_lanes
def test_track__properties__come_back_exactly_as_they_were_sent(subtests, api):
    for properties in [
        {"revenue": 19.99, "currency": "EUR", "experimentId": "no such", "variant": "blue"},
        {"revenue": 0}, {"revenue": -5}, {"revenue": 1e300}, {"revenue": 2**64 - 1}, {"currency": "eur"},
        {"experimentId": ""}, {"experimentId": "x" * 3000},
        {"Revenue": "another name", "nested": {"list": [1, 2.5, None, True, {"🙂": "é"}]}, "": "", "a.b[0]": 1},
        {"text": "x" * (32 * 1024 - len('{"text":""}'))},
    ]:  # fmt: skip
        with subtests.test(properties=properties):
            track(api, properties=properties)
            assert stored(api)[0]["properties"] == properties


@pytest.mark.both_lanes
def test_track__timestamp__is_kept_as_sent_in_utc(subtests, api):
    for sent, kept in [
        ("2026-01-31T12:00:00Z", "2026-01-31T12:00:00.000000Z"),
        ("2026-01-31T12:00:00.5Z", "2026-01-31T12:00:00.500000Z"),
        ("2026-01-31T12:00:00.123456+02:00", "2026-01-31T10:00:00.123456Z"),
        ("2026-01-31T12:00:00-0530", "2026-01-31T17:30:00.000000Z"),
        ("2026-01-31T12:00:00", "2026-01-31T12:00:00.000000Z"),
        ("2026-01-31T12:00", "2026-01-31T12:00:00.000000Z"),
        ("2026-01-31", "2026-01-31T00:00:00.000000Z"),
        ("2024-02-29", "2024-02-29T00:00:00.000000Z"),
        ("2999-12-31T23:59:59Z", "2999-12-31T23:59:59.000000Z"),
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00.000000Z"),
    ]:
        with undone(subtests, sent=sent, kept=kept):
            track(api, timestamp=sent)
            assert stored(api)[0]["timestamp"] == kept


@pytest.mark.both_lanes
def test_track__text_of_1_to_200_characters__is_accepted(subtests, api):
    for field in ["event", "userId"]:
        for text in ["x" * 200, "🙂" * 200, " ", "a\tb\nc"]:
            with subtests.test(field=field, text=text):
                track(api, **{field: text})
                assert stored(api)[0][field] == text


@pytest.mark.both_lanes
def test_track__own_id__is_kept_and_the_same_event_again_is_a_duplicate(api):
    assert track(api, id=ID, properties={"a": 1}) == {"id": ID, "status": "accepted"}
    assert track(api, id=ID, properties={"a": 2}) == {"id": ID, "status": "duplicate"}
    assert track(api, id=ID.upper()) == {"id": ID, "status": "duplicate"}
    assert [record["properties"] for record in stored(api)] == [{"a": 1}]


@pytest.mark.both_lanes
@pytest.mark.parametrize("other", [pytest.param({"userId": "v"}, marks=ids_of_all), {"event": "click"}])
def test_track__own_id_of_another_event__is_a_conflict_and_is_not_stored(api, other):
    track(api, id=ID)
    found = error(api.post("/v1/events", {**VIEW, "id": ID, **other}), 400, "validation_failed")
    assert [(detail["field"], detail["code"]) for detail in found["details"]] == [("id", "id_conflict")]
    assert len(stored(api)) == 1


@pytest.mark.both_lanes
def test_track__own_id_of_another_environment__is_a_conflict(api, staging_api):
    track(api, id=ID)
    found = error(staging_api.post("/v1/events", {**VIEW, "id": ID}), 400, "validation_failed")
    assert found["details"][0]["code"] == "id_conflict"
    assert stored(staging_api) == []


@pytest.mark.both_lanes
def test_track__every_mistake__is_named_in_one_answer(api):
    body = {"id": "1", "event": "", "timestamp": "then", "properties": {"revenue": "5", "currency": "€"}, "user": "u"}
    found = error(api.post("/v1/events", body), 400, "validation_failed")
    assert {detail["field"]: detail["code"] for detail in found["details"]} == {
        "id": "invalid_value",
        "event": "out_of_range",
        "userId": "required",
        "timestamp": "invalid_value",
        "properties.revenue": "invalid_type",
        "properties.currency": "invalid_value",
        "user": "unknown_field",
    }
    assert not Event.objects.exists()


# --- batch -----------------------------------------------------------------------------------------------------------


def test_batch__good_events__are_acknowledged_in_order(api):
    ids = [str(uuid4()) for _ in range(5)]
    acknowledged = batch(api, *({**VIEW, "id": each} for each in ids), VIEW)
    assert [each["id"] for each in acknowledged[:5]] == ids
    assert {each["status"] for each in acknowledged} == {"accepted"}
    assert all(list(each) == ["id", "status"] for each in acknowledged)
    assert {record["id"] for record in stored(api)} == {each["id"] for each in acknowledged}


def test_batch__some_bad_events__rejects_those_with_their_reason_and_stores_the_others(api):
    other = str(uuid4())
    events = [VIEW, {"event": "view"}, {**VIEW, "id": ID, "properties": {"revenue": "1"}}, 7, {**VIEW, "id": other}]
    first, second, third, fourth, fifth = batch(api, *events)
    assert [each["status"] for each in (first, fifth)] == ["accepted", "accepted"]
    assert [each["status"] for each in (second, third, fourth)] == ["rejected"] * 3
    assert [second["id"], third["id"], fourth["id"], fifth["id"]] == [None, ID, None, other]
    assert list(second["error"]) == ["code", "message", "details"]
    assert second["error"]["code"] == "validation_failed"
    assert [second["error"]["details"][0][name] for name in ("field", "code")] == ["userId", "required"]
    assert third["error"]["details"][0]["field"] == "properties.revenue"
    assert fourth["error"]["details"][0] == {
        "field": "body",
        "code": "invalid_type",
        "message": "Must be a JSON object.",
    }
    assert Event.objects.count() == 2


@pytest.mark.both_lanes
def test_event__that_is_no_object__gets_the_reason(subtests, api):
    detail = {"field": "body", "code": "invalid_type", "message": "Must be a JSON object."}
    for sent in [None, 7, "view", [], [VIEW]]:
        with subtests.test(sent=sent):
            response = api.post("/v1/events", json.dumps(sent), content_type="application/json")
            assert error(response, 400, "validation_failed")["details"] == [detail]
            assert batch(api, VIEW, sent)[1]["error"]["details"] == [detail]


def test_batch__event_that_no_database_keeps__spoils_no_other(subtests, api):
    for bad in [
        rb'{"event": "view", "userId": "\ud83d"}',
        rb'{"event": "view", "userId": "u", "properties": {"a": "\u0000"}}',
        b'{"event": "view", "userId": "u", "properties": {"a": NaN}}',
        b'{"event": "view", "userId": "u", "properties": {"revenue": 1e999}}',
        b'{"event": "view", "userId": "u", "properties": {"a": 11111111111111111111111111111111111111111}}',
        b'{"event": "view", "userId": "u", "properties": {"a": ' + b"[" * 99 + b"]" * 99 + b"}}",
        b'{"event": "view", "userId": "u", "userId": "v"}',
    ]:
        with undone(subtests, bad=bad):
            body = b'{"events": [{"event": "view", "userId": "u"}, ' + bad + b"]}"
            good, rejected = data(api.generic("POST", "/v1/events/batch", body, content_type="application/json"), 202)
            assert (good["status"], rejected["status"]) == ("accepted", "rejected")
            assert rejected["error"]["details"]
            assert Event.objects.count() == 1


def test_batch__all_bad__is_refused_with_each_field_by_its_place(api):
    body = {"events": [{"event": "view"}, {**VIEW, "properties": {"currency": "EURO"}}, None]}
    found = error(api.post("/v1/events/batch", body), 400, "validation_failed")
    assert [detail["field"] for detail in found["details"]] == [
        "events[0].userId",
        "events[1].properties.currency",
        "events[2]",
    ]
    assert not Event.objects.exists()


def test_batch__sent_again__is_all_duplicates_and_still_202(api):
    events = [{**VIEW, "id": str(uuid4())} for _ in range(3)]
    batch(api, *events)
    assert [each["status"] for each in batch(api, *events)] == ["duplicate"] * 3
    assert Event.objects.count() == 3


@ids_of_all
def test_batch__same_id_twice__is_accepted_once_and_conflicts_where_it_differs(api):
    statuses = batch(api, {**VIEW, "id": ID}, {**VIEW, "id": ID}, {**VIEW, "id": ID, "userId": "other"})
    assert [each["status"] for each in statuses] == ["accepted", "duplicate", "rejected"]
    assert statuses[2]["id"] == ID
    assert statuses[2]["error"]["details"][0]["code"] == "id_conflict"


@pytest.mark.both_lanes
@ids_of_all
def test_batch__nothing_but_conflicts__is_refused(api):
    track(api, id=ID)
    found = error(
        api.post("/v1/events/batch", {"events": [{**VIEW, "id": ID, "userId": "other"}]}), 400, "validation_failed"
    )
    assert (found["details"][0]["field"], found["details"][0]["code"]) == ("events[0].id", "id_conflict")


def test_batch__1000_events__are_taken_and_1001_are_not(api):
    found = error(api.post("/v1/events/batch", {"events": [VIEW] * 1001}), 413, "batch_too_large")
    assert "1,000" in found["message"]
    assert not Event.objects.exists()
    assert {each["status"] for each in batch(api, *[VIEW] * 1000)} == {"accepted"}
    assert Event.objects.count() == 1000


def test_batch__thousands_of_mistakes__are_answered_with_the_first_hundred(api):
    response = api.post("/v1/events/batch", {"events": [{"a": 1, "b": 2}] * 1000})
    assert len(error(response, 400, "validation_failed")["details"]) == 100


# --- query -----------------------------------------------------------------------------------------------------------


def names(records: list[dict[str, Any]]) -> list[str]:
    return [record["event"] for record in records]


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def test_query__no_events__is_an_empty_array(api):
    assert stored(api) == []


def test_query__events__are_newest_first_whatever_the_order_of_arrival(api):
    for seconds in (2, 1, 3):
        EventFactory(name=str(seconds), timestamp=at(seconds))
    assert names(stored(api)) == ["3", "2", "1"]


def test_query__without_a_limit__answers_100_and_names_the_next_page(api):
    EventFactory.create_batch(101)
    response = api.get("/v1/events")
    assert len(data(response)) == 100
    assert len(data(api.get(next_page(response)))) == 1


def test_query__limit_of_1000__is_the_most(api):
    EventFactory.create_batch(2)
    assert len(stored(api, "?limit=1000")) == 2
    assert len(stored(api, "?limit=1")) == 1
    found = error(api.get("/v1/events?limit=1001"), 400, "invalid_parameter")
    assert [(detail["field"], detail["code"]) for detail in found["details"]] == [("limit", "out_of_range")]


def test_query__filters__narrow_it(subtests, api):
    EventFactory(user_id="ada", name="a1", timestamp=at(1))
    EventFactory(user_id="ada", name="a2", timestamp=at(2))
    EventFactory(user_id="bob", name="b1", timestamp=at(3), properties={"experimentId": "button"})
    for query, found in [
        ("userId=ada", {"a1", "a2"}), ("event=a1", {"a1"}), ("userId=ada&event=b1", set()), ("userId=ADA", set()),
        ("experimentId=button", {"b1"}), ("experimentId=butto", set()),
        ("userId=ada&from=2026-01-31T12:00:02Z", {"a2"}),
    ]:  # fmt: skip
        with subtests.test(query=query):
            assert set(names(stored(api, f"?{query}"))) == found


def test_query__awkward_user_ids__are_found_when_escaped(subtests, api):
    for text in ["a b", "a+b", "a&b=c", "🙂", "%", "é", "a/b"]:
        with subtests.test(text=text):
            EventFactory(user_id=text)
            EventFactory(user_id="other")
            assert [record["userId"] for record in stored(api, f"?userId={quote(text, safe='')}")] == [text]


def test_query__from_and_to__take_both_ends_in_with_any_offset(subtests, api):
    for seconds in range(4):
        EventFactory(name=str(seconds), timestamp=at(seconds))
    for query, found in [
        ("from=2026-01-31T12:00:01Z", ["3", "2", "1"]),
        ("to=2026-01-31T12:00:01Z", ["1", "0"]),
        ("from=2026-01-31T12:00:01Z&to=2026-01-31T12:00:02Z", ["2", "1"]),
        ("from=2026-01-31T12:00:01.000001Z", ["3", "2"]),
        ("from=2026-01-31T14:00:02%2B02:00", ["3", "2"]),
        ("from=2026-01-31T14:00:02+02:00", ["3", "2"]),
        ("from=2026-01-31T06:30:02-05:30", ["3", "2"]),
        ("from=2026-01-31T12:00:02", ["3", "2"]),
        ("from=2026-01-31%2012:00:02", ["3", "2"]),
        ("from=2026-01-31", ["3", "2", "1", "0"]),
        ("to=2026-01-31", ["3", "2", "1", "0"]),
        ("to=2026-01-30", []),
        ("from=2026-02-01", []),
        ("from=2026-01-31T12:00:03Z&to=2026-01-31T12:00:00Z", []),
    ]:
        with subtests.test(query=query):
            assert names(stored(api, f"?{query}")) == found


def test_query__to_a_date__ends_with_its_last_instant(api):
    midnight = NOON + timedelta(hours=12)
    EventFactory(name="last", timestamp=midnight - timedelta(microseconds=1))
    EventFactory(name="first", timestamp=midnight)
    assert names(stored(api, "?to=2026-01-31")) == ["last"]
    assert names(stored(api, "?from=2026-02-01")) == ["first"]


def test_query__all_pages__hold_every_event_once_though_moments_are_equal(subtests, api):
    for limit in [1, 2, 7, 10]:
        for moments in [1, 3, 10]:
            with undone(subtests, limit=limit, moments=moments):
                events = [EventFactory(timestamp=at(number % moments)) for number in range(10)]
                EventFactory(name="other")
                expected = [
                    str(e.pk) for e in sorted(events, key=lambda event: (event.timestamp, event.pk), reverse=True)
                ]
                found, address = [], f"/v1/events?limit={limit}&event=page_viewed"
                while address:
                    response = api.get(address)
                    page = [record["id"] for record in data(response)]
                    assert 1 <= len(page) <= limit
                    found += page
                    address = next_page(response)
                assert found == expected


def test_query__event_that_arrives_between_two_pages__shifts_nothing(api):
    for seconds in range(4):
        EventFactory(name=str(seconds), timestamp=at(seconds))
    first = api.get("/v1/events?limit=2")
    EventFactory(name="new", timestamp=at(9))
    assert [*names(data(first)), *names(data(api.get(next_page(first))))] == ["3", "2", "1", "0"]


@pytest.mark.both_lanes
def test_query__other_environment__sees_none_of_them(api, staging_api):
    track(api)
    assert stored(staging_api) == []


def test_query__records__are_in_the_order_and_form_of_their_timestamps(api):
    for seconds in (0, 0.000001, 0.5, 1):
        EventFactory(timestamp=at(seconds))
    moments = [record["timestamp"] for record in stored(api)]
    assert moments == [format_timestamp(at(seconds)) for seconds in (1, 0.5, 0.000001, 0)]
    assert all(later > earlier for later, earlier in pairwise(moments))


def test_query__any_number_of_events__takes_one_query(subtests, api, django_assert_max_num_queries):
    EventFactory.create_batch(20)
    stored(api)
    for query in ["", "?userId=user-1", "?limit=3", "?event=page_viewed&from=2026-01-01"]:
        with subtests.test(query=query), django_assert_max_num_queries(1):
            stored(api, query)


@pytest.mark.both_lanes
def test_query__long_experiment_id__is_compared_whole(api):
    long = "e" * 150
    record_one = {"event": "see", "userId": "u", "properties": {"experimentId": long}}
    assert api.post("/v1/events", record_one, format="json").status_code == 202
    for reference, found in ((long, 1), (long[:101], 0), (long[:101] + "z" * 49, 0), (long[:100], 0)):
        assert len(api.get("/v1/events", {"experimentId": reference}).json()["data"]) == found
