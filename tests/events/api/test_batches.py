"""Batches as they come off the wire: whatever is wrong with one event spoils no other, and every answer is exact."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID, uuid4

import pytest

from config.access.api_keys import create_key
from config.models import Environment, Scope
from events.models import Event, EventCount
from tests.cases import undone
from tests.config.api.wire import Answer, failure, send
from tests.conftest import ACTOR, NOON

pytestmark = pytest.mark.django_db

MOST = 5 * 1024**2
MANY = 30
"""Events, more than are written one by one."""

Post = Callable[..., Answer]


@pytest.fixture
def post(production: Environment) -> Post:
    """Send a body to the batch operation."""
    _, secret = create_key(name="sender", environment=production, scope=Scope.CLIENT, actor=ACTOR, now=NOON)

    def send_batch(body: bytes, **headers: str) -> Answer:
        return send("POST", "/v1/events/batch", body, headers, key=secret)

    return send_batch


def event(at: int = 0, **values: Any) -> dict[str, Any]:
    return {"event": "view", "userId": f"user-{at}", **values}


def batch(events: Sequence[Any]) -> bytes:
    return json.dumps({"events": events}).encode()


def acknowledged(answer: Answer) -> list[dict[str, Any]]:
    assert answer.status == 202, answer.body
    found: list[dict[str, Any]] = answer.json()["data"]
    return found


def users() -> set[str]:
    """Of the events that are stored, each of which is counted."""
    found = list(Event.objects.values_list("user_id", flat=True))
    assert len(found) == len(set(found)) == sum(EventCount.objects.values_list("count", flat=True))
    return set(found)


# --- one bad event among many ----------------------------------------------------------------------------------------


BAD = {
    "U+0000 in a property": (event(17, properties={"text": "a\0b"}), "properties.text", "invalid_value"),
    "U+0000 in the user": (event(17, userId="a\0b"), "userId", "invalid_value"),
    "U+0000 in a name": (event(17, properties={"a\0b": 1}), "properties", "invalid_value"),
    "half a surrogate pair": (event(17, properties={"text": "\ud83d"}), "properties.text", "invalid_value"),
    "NaN": (event(17, properties={"n": float("nan")}), "properties.n", "invalid_value"),
    "66 bits": (event(17, properties={"n": 2**65}), "properties.n", "out_of_range"),
    "33 KiB": (event(17, properties={"text": "x" * 33 * 1024}), "properties", "too_long"),
    "100 levels": (
        event(17, properties={"a": json.loads("[" * 99 + "]" * 99)}), "properties.a" + "[0]" * 62, "out_of_range",
    ),
    "100 levels of objects": (
        event(17, properties=json.loads('{"a":' * 100 + "1" + "}" * 100)), "properties" + ".a" * 63, "out_of_range",
    ),
    "no user": ({"event": "view"}, "userId", "required"),
    "a field too many": (event(17, user="u"), "user", "unknown_field"),
    "another day": (event(17, timestamp="2026-02-30"), "timestamp", "invalid_value"),
    "money as text": (event(17, properties={"revenue": "1"}), "properties.revenue", "invalid_type"),
    "an invalid id": (event(17, id="17"), "id", "invalid_value"),
    "null": (None, "body", "invalid_type"),
}  # fmt: skip


def test_batch__event_17_is_bad__is_rejected_and_16_and_18_are_stored(subtests: pytest.Subtests, post: Post) -> None:
    for what in BAD:
        with undone(subtests, what=what):
            bad, field, code = BAD[what]
            events = [event(at) if at != 17 else bad for at in range(MANY)]

            answers = acknowledged(post(batch(events)))
            assert [each["status"] for each in answers] == [
                "rejected" if at == 17 else "accepted" for at in range(MANY)
            ]
            error = answers[17]["error"]
            assert (error["code"], error["details"][0]["field"], error["details"][0]["code"]) == (
                ("validation_failed", field, code)
            )
            assert users() == {f"user-{at}" for at in range(MANY) if at != 17}


def test_batch__name_twice_in_one_event__rejects_that_one(post: Post) -> None:
    twice = b'{"event": "view", "userId": "u", "properties": {"a": 1, "a": 2}}'
    body = b'{"events": [' + json.dumps(event(1)).encode() + b", " + twice + b"]}"

    good, bad = acknowledged(post(body))
    assert (good["status"], bad["status"]) == ("accepted", "rejected")
    assert bad["error"]["details"][0]["field"] == "properties.a"
    assert users() == {"user-1"}


# --- ids -------------------------------------------------------------------------------------------------------------


@pytest.mark.one_server("an id belongs to one user on Citus")
def test_batch__same_ids_inside__are_stored_once_and_answered_one_by_one(post: Post) -> None:
    ids = [str(uuid4()) for _ in range(MANY)]
    events = [event(at, id=each) for at, each in enumerate(ids)]
    others = [event(at, id=each, userId="other") for at, each in enumerate(ids)]
    upper = [event(at, id=each.upper()) for at, each in enumerate(ids)]

    answers = acknowledged(post(batch([*events, *others, *upper])))
    assert [each["status"] for each in answers] == ["accepted"] * MANY + ["rejected"] * MANY + ["duplicate"] * MANY
    assert [each["id"] for each in answers] == ids * 3
    assert {each["error"]["details"][0]["code"] for each in answers[MANY : 2 * MANY]} == {"id_conflict"}
    assert users() == {f"user-{at}" for at in range(MANY)}


def test_batch__sent_again_with_more__stores_only_what_is_new(post: Post) -> None:
    events = [event(at, id=str(uuid4())) for at in range(MANY)]
    first = acknowledged(post(batch(events[:20])))
    again = acknowledged(post(batch(events)))

    assert {each["status"] for each in first} == {"accepted"}
    assert [each["status"] for each in again] == ["duplicate"] * 20 + ["accepted"] * (MANY - 20)
    assert [each["id"] for each in again] == [each["id"] for each in events]
    assert users() == {f"user-{at}" for at in range(MANY)}


@pytest.mark.one_server("an id belongs to one user on Citus")
def test_batch__id_of_another_user__is_rejected_and_the_others_are_stored(post: Post) -> None:
    taken = str(uuid4())
    acknowledged(post(batch([event(99, id=taken)])))

    answers = acknowledged(post(batch([event(at, id=taken) if at == 7 else event(at) for at in range(MANY)])))
    assert [each["status"] for each in answers] == ["rejected" if at == 7 else "accepted" for at in range(MANY)]
    assert (answers[7]["id"], answers[7]["error"]["details"][0]["code"]) == (taken, "id_conflict")
    assert users() == {"user-99"} | {f"user-{at}" for at in range(MANY) if at != 7}


def test_batch__events_without_ids__get_new_ones_in_the_order_of_time(post: Post) -> None:
    answers = acknowledged(post(batch([event(at) for at in range(MANY)])))
    ids = [UUID(each["id"]) for each in answers]
    assert {each.version for each in ids} == {7}
    assert ids == sorted(ids)
    assert set(Event.objects.values_list("pk", flat=True)) == set(ids)


# --- the batch as a whole --------------------------------------------------------------------------------------------


def test_batch__1001_events__are_refused_whole(post: Post) -> None:
    assert failure(post(batch([event()] * 1001)))["code"] == "batch_too_large"
    assert users() == set()


@pytest.mark.parametrize("headers", [{}, {"Transfer-Encoding": "chunked"}], ids=["announced", "in chunks"])
def test_batch__of_5_mib__is_taken_and_of_one_byte_more_is_refused(post: Post, headers: dict[str, str]) -> None:
    body = batch([event(1)])
    headers = {"Content-Type": "application/json", **headers}
    assert failure(post(body.ljust(MOST + 1), **headers))["code"] == "body_too_large"
    assert users() == set()
    assert len(acknowledged(post(body.ljust(MOST), **headers))) == 1


def test_batch__compressed__is_taken_and_a_bomb_is_refused(post: Post) -> None:
    gzipped = {"Content-Encoding": "gzip"}
    body = batch([event(at) for at in range(MANY)])
    assert len(acknowledged(post(gzip.compress(body), **gzipped))) == MANY

    bomb = gzip.compress(body.ljust(50 * 1024**2))
    assert len(bomb) < MOST // 50
    assert failure(post(bomb, **gzipped))["code"] == "body_too_large"
    assert len(users()) == MANY


def test_batch__all_bad__is_refused_with_the_place_of_each(post: Post) -> None:
    error = failure(post(batch([event(properties={"a": "\0"})] * MANY)))
    assert (error["code"], [each["field"] for each in error["details"]]) == (
        ("validation_failed", [f"events[{at}].properties.a" for at in range(MANY)])
    )
    assert users() == set()
