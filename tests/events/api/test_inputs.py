"""Events as clients send them: structs, serializers and the OpenAPI document hold them to the same rules."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from config.api.bodies import MAX_DEPTH, defects
from config.errors import DomainError, ValidationFailed
from config.timestamps import format_timestamp, parse_timestamp
from events.api import inputs
from events.api.event_views import BatchSerializer
from events.api.inputs import MAX_EVENTS, EventSerializer, Rejected, read_batch, read_event
from events.properties import MAX_BYTES, property_defects
from events.recording import NewEvent
from tests.config.api.test_schema import ANYTHING, TEXTS, objects
from tests.conftest import NOON
from tests.openapi import schemas, validator

ID = "01937a5e-9c1b-7d3a-8f00-4e1d2c3b4a59"
EVENT = {"event": "e", "userId": "u"}

UUIDS = st.one_of(*(st.uuids().map(to) for to in (str, lambda each: str(each).upper(), lambda each: each.hex)), TEXTS)
MOMENTS = st.datetimes().map(lambda moment: moment.isoformat() + "Z") | st.dates().map(str) | TEXTS
INTEGERS = st.sampled_from([2**64 - 1, 2**64, -(2**63), -(2**63) - 1])
RESERVED = objects(
    {"revenue": st.floats(allow_nan=False, allow_infinity=False) | INTEGERS, "currency": st.just("EUR")},
    {"revenue": ANYTHING, "plan": ANYTHING},
    {"currency": st.sampled_from(["eur", "EU", "EURO", "E1R", "EUR\n", "ÉUR", "", None, 1]), "a:b": st.just(":")},
    {"experimentId": TEXTS | ANYTHING, "variant": TEXTS | ANYTHING},
)
EVENTS = objects(
    {"event": TEXTS, "userId": TEXTS},
    {"event": TEXTS, "userId": TEXTS, "id": UUIDS, "timestamp": MOMENTS},
    {"event": TEXTS, "userId": TEXTS, "properties": RESERVED},
    {
        "event": TEXTS | ANYTHING,
        "userId": TEXTS,
        "id": UUIDS | ANYTHING,
        "properties": st.dictionaries(TEXTS, ANYTHING),
    },
    {"event": TEXTS, "userId": TEXTS, "timestamp": MOMENTS | ANYTHING, "properties": ANYTHING},
)


def is_read(event: Any) -> bool:
    try:
        read_event(json.dumps(event).encode(), received_at=NOON)
    except ValidationFailed:
        return False
    return True


def is_acceptable(event: Any) -> bool:
    """By the serializer and what stands beside it: what no body may hold, and the reserved properties."""
    if any(defects(event)) or not EventSerializer(data=event).is_valid():
        return False
    return not any(property_defects(event.get("properties", {})))


def is_described(event: Any) -> bool:
    """By the schema, but for what it cannot say: which moments are read, and that integers have at most 64 bits."""
    if any(defects(event)):
        return False
    if isinstance(event, dict) and isinstance(event.get("timestamp"), str):
        try:
            event = {**event, "timestamp": format_timestamp(parse_timestamp(event["timestamp"]))}
        except ValueError:
            return False
    return bool(validator(schemas()["EventRequest"]).is_valid(event))


@settings(max_examples=1000)
@given(EVENTS | ANYTHING)
@example({**EVENT, "timestamp": "2026-01-31 12:00:00"})
@example({**EVENT, "timestamp": None})
@example({**EVENT, "id": ID.upper()})
@example({**EVENT, "id": ID.replace("-", "")})
@example({**EVENT, "id": f"{ID}\n"})
@example({**EVENT, "id": f"{{{ID}}}"})
@example({**EVENT, "properties": None})
@example({**EVENT, "properties": {"revenue": True}})
@example({**EVENT, "properties": {"revenue": 2**64}})
@example({**EVENT, "properties": {"n": 2**64}})
@example({**EVENT, "properties": {"n": -(2**63) - 1}})
@example({**EVENT, "properties": {"currency": "EUR\n"}})
@example({**EVENT, "properties": {"variant": None}})
def test_event__of_any_shape__is_accepted_by_struct_serializer_and_schema_alike(event: Any) -> None:
    assert is_read(event) == is_acceptable(event) == is_described(event)


@settings(max_examples=200)
@given(st.lists(EVENTS, min_size=1, max_size=5))
def test_batch__of_any_events__reads_each_as_it_would_be_read_alone(events: list[Any]) -> None:
    found = read_batch(json.dumps({"events": events}).encode(), received_at=NOON)
    assert [isinstance(each, NewEvent) for each in found] == [is_read(event) for event in events]
    for sent, read in zip(events, found, strict=True):
        if isinstance(read, NewEvent):
            alone = read_event(json.dumps(sent).encode(), received_at=NOON)
            assert (read.user_id, read.name, read.timestamp, read.received_at, read.properties) == (
                (alone.user_id, alone.name, alone.timestamp, alone.received_at, alone.properties)
            )
            assert "id" not in sent or read.id == alone.id == UUID(sent["id"])


@settings(max_examples=200)
@given(objects({"events": st.lists(EVENTS, max_size=3) | ANYTHING}) | ANYTHING)
@example({"events": [EVENT] * MAX_EVENTS})
@example({"events": [EVENT] * (MAX_EVENTS + 1)})
@example({"events": []})
def test_batch__of_any_shape__is_one_for_struct_serializer_and_schema_alike(batch: Any) -> None:
    def is_read_as_one() -> bool:
        try:
            found = read_batch(json.dumps(batch).encode(), received_at=NOON)
        except DomainError:
            return False
        return not any(isinstance(each, Rejected) for each in found)

    assume(not any(isinstance(each, dict) and "timestamp" in each for each in _events(batch)))  # tested above
    has_all = all(map(is_acceptable, _events(batch)))
    is_closed = isinstance(batch, dict) and batch.keys() <= {"events"}  # as the view checks by itself
    is_valid = is_closed and BatchSerializer(data=batch).is_valid() and has_all
    assert is_read_as_one() == is_valid == (has_all and validator(schemas()["BatchRequest"]).is_valid(batch))


def _events(batch: Any) -> list[Any]:
    events = batch.get("events") if isinstance(batch, dict) else None
    return events if isinstance(events, list) else []


# --- one pass --------------------------------------------------------------------------------------------------------


@pytest.fixture
def _no_second_look(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_raw: bytes) -> None:
        raise AssertionError("decoded once more")

    monkeypatch.setattr(inputs, "decode", fail)


GOOD = [
    EVENT,
    {**EVENT, "id": ID, "timestamp": "2026-01-31T12:00:00+02:00"},
    {**EVENT, "event": "a:b", "userId": 'é 😀 \\ " \t\n', "properties": {}},
    {
        **EVENT,
        "properties": {"revenue": 19.99, "currency": "EUR", "experimentId": "x", "variant": "a", "a:": {"b": ":"}},
    },
    {**EVENT, "properties": {"list": [[each] for each in range(100)], "n": 2**64 - 1, "m": -(2**63), "none": None}},
    {**EVENT, "properties": {"text": "x" * (MAX_BYTES - len('{"text":""}'))}},
]


@pytest.mark.usefixtures("_no_second_look")
@pytest.mark.parametrize("is_escaped", [True, False])
def test_batch__all_good__is_read_in_one_pass(is_escaped: bool) -> None:
    found = read_batch(json.dumps({"events": GOOD * 100}, ensure_ascii=is_escaped, indent=1).encode(), received_at=NOON)
    for event, read in zip(GOOD * 100, found, strict=True):
        assert isinstance(read, NewEvent)
        assert (read.name, read.user_id, read.properties) == (
            event["event"], event["userId"], event.get("properties", {}),
        )  # fmt: skip
    assert len({each.id for each in found}) == len(found) - 99  # one has an id of its own


@pytest.mark.usefixtures("_no_second_look")
def test_event__good__is_read_in_one_pass() -> None:
    for event in GOOD:
        assert read_event(json.dumps(event).encode(), received_at=NOON).name == event["event"], event


# --- depth and size --------------------------------------------------------------------------------------------------


def nested(levels: int, *, in_objects: bool) -> dict[str, Any]:
    """Properties that are so many levels deep, themselves counted."""
    value: Any = 1
    for _ in range(levels - 1):
        value = {"a": value} if in_objects else [value]
    return {"a": value}


@pytest.mark.parametrize("in_objects", [True, False])
def test_event__as_deep_as_may_be__is_read_and_one_level_more_is_refused(in_objects: bool) -> None:
    good, bad = ({**EVENT, "properties": nested(MAX_DEPTH + more, in_objects=in_objects)} for more in (-1, 0))
    assert is_read(good)
    assert not is_read(bad)
    of_batch = read_batch(json.dumps({"events": [good, bad, EVENT]}).encode(), received_at=NOON)
    assert [type(each) for each in of_batch] == [NewEvent, Rejected, NewEvent]
    assert isinstance(read_batch(json.dumps({"events": [good] * 9}).encode(), received_at=NOON)[8], NewEvent)


def test_event__of_a_byte_too_much__is_refused_alone() -> None:
    large = {**EVENT, "properties": {"text": "x" * (MAX_BYTES - len('{"text":""}') + 1)}}
    assert not is_read(large)
    found = read_batch(json.dumps({"events": [large, EVENT]}).encode(), received_at=NOON)
    assert [type(each) for each in found] == [Rejected, NewEvent]
