"""Rows that were restored from another server, before their table is spread."""

from __future__ import annotations

from concurrent.futures import Future

import psycopg
import pytest
from django.db import connection, transaction

from config.database import distribution as plan
from config.database.commit_order import (
    arrived_since,
    forget_restored_rows,
    has_restored_rows,
    take_watermark,
)
from config.database.distribution import spread
from config.models import Environment
from events.models import Event
from events.recording import NewEvent, new_id, record
from tests.conftest import NOON
from tests.threads import SECONDS, Gate, Threads

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.one_server("it is done before tables are spread"),
    pytest.mark.skipif(connection.vendor != "postgresql", reason="only tables of PostgreSQL are spread"),
]


def write(environment: Environment, *users: str) -> None:
    record([NewEvent(new_id(), user, f"of {user}", NOON, NOON, {}) for user in users], environment)


def look() -> str:
    with transaction.atomic():
        return take_watermark()


def seen_since(watermark: str) -> list[str]:
    condition, parameters = arrived_since(watermark, "arrival")
    return sorted(Event.objects.extra(where=[condition], params=parameters).values_list("user_id", flat=True))


def forget() -> None:
    [table, *_] = [table for table in spread if table.name == Event._meta.db_table]
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("LOCK TABLE events_event")
        for statement in plan._with_own_arrivals(table):
            cursor.execute(statement)


def test_spread__tables_with_arrivals__are_known() -> None:
    assert [table.name for table in spread if table.has_arrivals] == ["events_event", "experiments_exposure"]


def test_plan__rows_of_this_server__stay_as_they_are(production: Environment) -> None:
    write(production, "ours")
    assert not has_restored_rows(Event._meta.db_table)
    [table, *_] = spread
    assert list(plan._with_own_arrivals(table)) == []


def test_plan__rows_of_another_server__are_old_and_the_others_as_new_as_before(production: Environment) -> None:
    write(production, "ahead", "old")
    watermark = look()
    write(production, "new")
    with connection.cursor() as cursor:
        cursor.execute("UPDATE events_event SET arrival = arrival + 1000000 WHERE user_id = 'ahead'")
    numbers = dict(Event.objects.values_list("user_id", "arrival"))

    forget()

    assert dict(Event.objects.values_list("user_id", "arrival")) == {**numbers, "ahead": 0}
    assert seen_since(watermark) == ["new"]
    write(production, "newest")  # as the table has its default still
    assert seen_since(watermark) == ["new", "newest"]


def test_plan__row_with_the_number_of_a_transaction_under_way__is_old_once_that_has_ended(
    production: Environment,
) -> None:
    write(production, "restored")
    with psycopg.connect(**connection.get_connection_params()) as other:
        [number] = other.execute("SELECT pg_current_xact_id()::text::bigint").fetchone()
        with connection.cursor() as cursor:
            cursor.execute("UPDATE events_event SET arrival = %s", [number])
        watermark = look()
        assert has_restored_rows(Event._meta.db_table)
        forget()
    assert seen_since(watermark) == []


def test_forget_restored_rows__transaction_that_the_lock_waited_for__keeps_its_number(
    production: Environment, threads: Threads
) -> None:
    gate = Gate()

    def write_and_wait() -> None:
        with transaction.atomic():
            write(production, "late")
            gate.pass_through()

    def wait_and_forget() -> None:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("LOCK TABLE events_event IN ACCESS EXCLUSIVE MODE")
            cursor.execute(forget_restored_rows("events_event"))

    watermark = look()
    writing: Future[None] = threads.start(write_and_wait)
    gate.wait_for_arrival()
    forgetting: Future[None] = threads.start(wait_and_forget)
    gate.open()
    writing.result(SECONDS)
    forgetting.result(SECONDS)
    assert seen_since(watermark) == ["late"]
