"""Inserting many rows by one statement: every kind of value arrives as Django's own fields would store it."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

import pytest

from config.database.insertion import as_uuid, insert
from config.models import Environment
from events.models import Event, EventCount
from tests.conftest import NOON

pytestmark = pytest.mark.django_db

COLUMNS = ("id", "environment_id", "user_id", "name", "timestamp", "received_at", "experiment", "variant", "properties")
COUNTS = ("environment_id", "name", "quarter", "stripe", "count")
EMPTY = {"experiment": "", "variant": "", "properties": {}}
TEXTS = ["", "%s %(a)s {}", "\\ \t\n\r\x01", "'\" é 😀", "null"]


def row(number: int, environment: Environment, **values: object) -> tuple[object, ...]:
    given = {"user_id": "u", "name": "n", "timestamp": NOON, "received_at": NOON, **EMPTY, **values}
    return UUID(int=number), environment.pk, *given.values()


@pytest.mark.parametrize("text", TEXTS)
def test_insert__any_value__is_stored_as_by_the_fields(production: Environment, text: str) -> None:
    properties = {text: [text, {"n": [1, -2.5, 1e300, 2**63, True, None]}]}
    moments = [datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999999, UTC)]
    values = {"timestamp": moments[0], "received_at": moments[1], "properties": properties}
    insert(Event, COLUMNS, [row(1, production, user_id=f"{text}!", **values)], "")
    # and by Django itself
    Event.objects.create(id=UUID(int=2), environment=production, user_id=f"{text}!", name="n", **values)

    one, two = Event.objects.order_by("pk").values()
    assert {**one, "id": two["id"]} == two
    assert one["id"] == UUID(int=1)
    assert Event.objects.filter(user_id=f"{text}!", timestamp=moments[0], received_at=moments[1]).count() == 2


def test_insert__some_there_already__returns_those_that_were_new(production: Environment) -> None:
    then = "ON CONFLICT (id) DO NOTHING RETURNING id, name"
    insert(Event, COLUMNS, [row(2, production)], "")

    returned = insert(Event, COLUMNS, [row(at, production, name="m") for at in (1, 2, 3)], then)
    assert [(as_uuid(event_id), name) for event_id, name in returned] == [(UUID(int=1), "m"), (UUID(int=3), "m")]
    assert list(Event.objects.order_by("pk").values_list("name", flat=True)) == ["m", "n", "m"]


def test_insert__more_rows_than_fit_a_statement__stores_and_returns_them_all(production: Environment) -> None:
    rows = [(production.pk, "n", quarter, 0, quarter) for quarter in range(2500)]
    returned = insert(EventCount, COUNTS, rows, "RETURNING quarter")

    assert [quarter for (quarter,) in returned] == list(range(2500))
    assert EventCount.objects.count() == 2500


def test_insert__no_rows__asks_nothing(production: Environment, django_assert_num_queries) -> None:
    with django_assert_num_queries(0):
        assert insert(EventCount, COUNTS, [], "RETURNING quarter") == []
