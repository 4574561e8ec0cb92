"""Writing many rows at once: every text arrives as it was, and a call with old ids among new ones stores the new."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

import pytest

from config.models import Environment
from events.models import Event
from events.recording import NewEvent, Outcome, record
from tests.cases import undone
from tests.conftest import NOON

pytestmark = pytest.mark.django_db

ENOUGH = 40
"""Rows that are written at once."""

STRANGE = ["\\", "\\N", "\\.", "a\tb", "a\nb", "a\rb", '"', "'", "%s", "{}", "é 😀", "\x01\x7f", "\\\\t", "\\u0041"]


def make(number: int, **values: object) -> NewEvent:
    given = {"user_id": "u", "name": "n", "timestamp": NOON, "received_at": NOON, "properties": {}, **values}
    return NewEvent(UUID(int=number), **given)  # type: ignore[arg-type]


def test_record__many_events__keeps_every_text(subtests: pytest.Subtests, production: Environment) -> None:
    for text in STRANGE:
        with undone(subtests, text=text):
            properties = {
                "experimentId": text,
                "variant": text,
                text: [text, {text: text}],
                "n": [1, 2.5, 1e20, None, True],
            }
            events = [make(number, user_id=text, name=text, properties=properties) for number in range(ENOUGH)]

            assert record(events, production) == [Outcome.ACCEPTED] * ENOUGH
            for stored in Event.objects.all():
                assert (stored.user_id, stored.name, stored.experiment, stored.variant) == (text, text, text, text)
                assert stored.properties == properties


def test_record__many_events__keeps_every_moment(subtests: pytest.Subtests, production: Environment) -> None:
    for year in [1, 1582, 1969, 9999]:
        with undone(subtests, year=year):
            moment = datetime(year, 12, 31, 23, 59, 59, 999999, UTC)
            record([make(number, timestamp=moment) for number in range(ENOUGH)], production)

            assert set(Event.objects.values_list("timestamp", "received_at")) == {(moment, NOON)}


@pytest.mark.one_server("an id belongs to one user on Citus")
def test_record__one_old_event_among_many__stores_the_others(production: Environment) -> None:
    record([make(7)], production)

    outcomes = record([make(number, user_id="v" if number == 7 else "u") for number in range(ENOUGH)], production)
    assert outcomes == [Outcome.CONFLICT if number == 7 else Outcome.ACCEPTED for number in range(ENOUGH)]
    assert Event.objects.count() == ENOUGH
