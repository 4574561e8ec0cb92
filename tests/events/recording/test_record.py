"""Recording events: each is stored once, even if others record the same ones."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import pytest
from msgspec.structs import replace

from config.models import Environment
from events.models import Event
from events.recording import NewEvent, Outcome, events_stored, record
from tests.conftest import NOON

pytestmark = pytest.mark.django_db


def make_event(number: int = 1, **values) -> NewEvent:
    event = NewEvent(UUID(int=number), "user-1", "purchase", NOON, NOON, {})
    return replace(event, **values)


def test_record__new_events__are_stored_as_they_are(production: Environment) -> None:
    event = make_event(
        timestamp=NOON - timedelta(microseconds=1), properties={"experimentId": "e", "n": [1, 2.5, None]}
    )

    assert record([event], production) == [Outcome.ACCEPTED]
    stored = Event.objects.get()
    assert (stored.pk, stored.user_id, stored.name, stored.environment) == (event.id, "user-1", "purchase", production)
    assert (stored.timestamp, stored.received_at) == (event.timestamp, NOON)
    assert (stored.experiment, stored.properties) == ("e", event.properties)


def test_record__same_event_again__is_a_duplicate_and_stays_as_it_was(production: Environment) -> None:
    record([make_event(properties={"revenue": 1})], production)

    assert record([make_event(properties={"revenue": 2})], production) == [Outcome.DUPLICATE]
    assert Event.objects.get().properties == {"revenue": 1}


@pytest.mark.one_server("an id belongs to one user on Citus")
def test_record__same_id_twice_in_one_call__stores_the_first(production: Environment) -> None:
    outcomes = record([make_event(), make_event(properties={"a": 1}), make_event(user_id="user-2")], production)

    assert outcomes == [Outcome.ACCEPTED, Outcome.DUPLICATE, Outcome.CONFLICT]
    assert Event.objects.get().properties == {}


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"user_id": "user-2"}, marks=pytest.mark.one_server("an id belongs to one user on Citus")),
        {"name": "signup"},
    ],
)
def test_record__same_id_for_something_else__is_a_conflict(production: Environment, other: dict[str, str]) -> None:
    record([make_event()], production)

    assert record([make_event(**other), make_event(2)], production) == [Outcome.CONFLICT, Outcome.ACCEPTED]
    assert Event.objects.count() == 2


def test_record__same_id_in_another_environment__is_a_conflict(production: Environment, staging: Environment) -> None:
    record([make_event()], production)

    assert record([make_event()], staging) == [Outcome.CONFLICT]
    assert Event.objects.get().environment == production


def test_record__thousands_of_events__stores_them_all(production: Environment) -> None:
    events = [make_event(number) for number in range(1, 2502)]

    assert set(record(events, production)) == {Outcome.ACCEPTED}
    assert Event.objects.count() == 2501


def test_record__announcement__holds_what_was_not_there_before(production: Environment) -> None:
    heard: list[NewEvent] = []

    def listen(*, events: list[NewEvent], **_: object) -> None:
        heard.extend(events)

    record([make_event(1)], production)
    events_stored.connect(listen)
    try:
        record([make_event(1), make_event(3), make_event(2), make_event(3)], production)
        record([make_event(1)], production)
    finally:
        events_stored.disconnect(listen)
    assert [event.id for event in heard] == [UUID(int=2), UUID(int=3)]


def test_record__listener_fails__nothing_is_stored(production: Environment) -> None:
    def fail(**_: object) -> None:
        raise RuntimeError("no")

    events_stored.connect(fail)
    try:
        with pytest.raises(RuntimeError, match="no"):
            record([make_event()], production)
    finally:
        events_stored.disconnect(fail)
    assert not Event.objects.exists()


def test_record__nothing__is_nothing(production: Environment) -> None:
    assert record([], production) == []


def test_record__longer_reference_than_any_key__names_no_experiment_but_is_kept(production: Environment) -> None:
    reference = "e" * 5000
    record([make_event(properties={"experimentId": reference})], production)

    stored = Event.objects.get()
    assert stored.properties["experimentId"] == reference
    assert stored.experiment == "e" * 101
