"""Inserting many rows by one statement: every kind of value arrives as Django's own fields would store it."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

import pytest
from django.db import IntegrityError, OperationalError, connection, transaction

from config.database.insertion import as_uuid, execute_all, insert, replacing, stage, unchecked, were_all_new
from config.database.outages import is_outage
from config.models import Environment
from events.models import Event, EventCount
from flags.models import FlagTag, Segment
from tests.conftest import NOON
from tests.factories import FlagFactory

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
    then = "ON CONFLICT DO NOTHING RETURNING id, name"
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


# --- rows that are staged ---------------------------------------------------------------------------------------------

SEGMENT = ("id", "key", "description", "conditions", "user_ids", "created_at", "updated_at", "version")


def segment(number: int, key: str = "", **values: object) -> tuple[object, ...]:
    given = {"description": "", "conditions": [], "user_ids": ["u"], **values}
    return UUID(int=number), key or f"segment-{number}", *given.values(), NOON, NOON, number


def copy(rows: list[tuple[object, ...]]) -> None:
    statements = stage(Segment, SEGMENT, rows, replacing(("id",), SEGMENT))
    with transaction.atomic(), unchecked():
        execute_all(statements)


def test_stage__new_and_changed_rows__are_copied_as_they_would_be_inserted() -> None:
    insert(Segment, SEGMENT, [segment(1), segment(2)], "")
    before = list(Segment.objects.order_by("pk").values())
    copy([segment(2, description="Other", user_ids=[]), segment(3)])

    after = list(Segment.objects.order_by("pk").values())
    assert after[:2] == [before[0], {**before[1], "description": "Other", "user_ids": []}]
    assert after[2] == {**before[0], "id": UUID(int=3), "key": "segment-3", "version": 3}


def test_stage__more_rows_than_fit_a_statement__keeps_their_order() -> None:
    flag = FlagFactory(key="f")
    statements = stage(FlagTag, ("flag_id", "name"), [(flag.pk, str(number)) for number in range(1500)], "")
    assert not FlagTag.objects.exists()
    execute_all(statements)
    assert list(FlagTag.objects.order_by("pk").values_list("name", flat=True)) == [str(at) for at in range(1500)]


def test_stage__again__forgets_rows_that_were_not_copied() -> None:
    stage(Segment, SEGMENT, [segment(1)], "")
    copy([segment(2)])
    assert list(Segment.objects.values_list("key", flat=True)) == ["segment-2"]


def test_stage__row_that_breaks_a_constraint__is_refused_though_the_copy_is_not_checked() -> None:
    with pytest.raises(IntegrityError), transaction.atomic():
        copy([segment(1, key="not a key")])
    with pytest.raises(IntegrityError), transaction.atomic():
        insert(Segment, SEGMENT, [segment(1, key="not a key")], "")


@pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL makes all checks")
def test_unchecked__block_that_fails__leaves_checks_to_later_statements() -> None:
    with pytest.raises(RuntimeError), unchecked():
        raise RuntimeError
    with pytest.raises(IntegrityError), transaction.atomic():
        insert(Segment, SEGMENT, [segment(1, key="not a key")], "")


def test_were_all_new__a_row_that_exists__is_rolled_back_alone(production: Environment) -> None:
    def write() -> None:
        insert(Event, COLUMNS, [row(2, production), row(1, production)], "")

    insert(Event, COLUMNS, [row(1, production)], "")

    assert not were_all_new(write)
    assert Event.objects.count() == 1


def test_were_all_new__savepoint_that_cannot_be_restored__raises_an_outage(
    production: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection to a worker of Citus may be lost just then."""

    def fail(sid: str) -> None:
        raise OperationalError("terminating connection due to administrator command")

    insert(Event, COLUMNS, [row(1, production)], "")
    with transaction.atomic():
        monkeypatch.setattr(connection, "savepoint_rollback", fail)
        with pytest.raises(OperationalError) as raised:
            were_all_new(lambda: insert(Event, COLUMNS, [row(1, production)], ""))
        monkeypatch.undo()
        transaction.set_rollback(True)

    assert is_outage(raised.value)
