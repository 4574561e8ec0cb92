"""Commit order: each read finds every row that was committed since the previous one, and no older
row.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from concurrent.futures import Future
from itertools import count

import pytest
from django.db import connection, transaction
from django.db.models import QuerySet

from config.database.commit_order import (
    CURRENT,
    Arrived,
    is_watermark_of_this_database,
    take_watermark,
)
from config.models import Environment
from events.models import Event
from events.recording import NewEvent, new_id, record, record_one
from tests.conftest import NOON
from tests.threads import SECONDS, Gate, Threads

pytestmark = pytest.mark.django_db(transaction=True)

on_postgresql = pytest.mark.skipif(connection.vendor != "postgresql", reason="only PostgreSQL has several writers")
on_sqlite = pytest.mark.skipif(connection.vendor != "sqlite", reason="only SQLite counts epochs")


def happen(*users: str, name: str = "seen") -> list[NewEvent]:
    return [NewEvent(new_id(), user, name, NOON, NOON, {}) for user in users]


def seen_since(watermark: str) -> list[str]:
    """The users of the events that have arrived since."""
    return sorted(Event.objects.filter(Arrived("arrival", watermark)).values_list("user_id", flat=True))


def look() -> str:
    with transaction.atomic():
        return take_watermark()


def test_arrived__rows_before_and_after_the_mark__are_the_later_ones(production: Environment) -> None:
    record(happen("a", "b"), production)
    first = look()
    assert seen_since(first) == []

    record(happen("c"), production)
    second = look()
    record(happen("d"), production)

    assert seen_since(first) == ["c", "d"]
    assert seen_since(second) == ["d"]
    assert seen_since(look()) == []


def test_arrived__what_is_rolled_back__tells_the_rest(production: Environment) -> None:
    watermark = look()
    record_and_roll_back("a", production)
    assert seen_since(watermark) == []

    with transaction.atomic():
        record(happen("b"), production)
        record_and_roll_back("c", production)
        record(happen("d"), production)
    assert seen_since(watermark) == ["b", "d"]


def record_and_roll_back(user: str, environment: Environment) -> None:
    with transaction.atomic():
        record(happen(user), environment)
        transaction.set_rollback(True)


@pytest.mark.parametrize("seed", range(2))
def test_arrived__looks_while_many_write__tell_every_row(threads: Threads, seed: int) -> None:
    production = Environment.objects.get(key="production")
    watermark, seen = look(), set[str]()
    writers: list[Future[None]] = [threads.start(write_slowly, production, seed * 10 + at) for at in range(4)]
    while not all(writer.done() for writer in writers):
        watermark = look_again(watermark, seen)
        time.sleep(0.01)  # SQLite does not queue writers for its only lock
    look_again(watermark, seen)

    for writer in writers:
        writer.result()
    assert len(seen) == 4 * 12
    assert seen == set(Event.objects.values_list("user_id", flat=True))


def write_slowly(environment: Environment, number: int) -> None:
    chance, users = random.Random(number), count()
    for _ in range(4):
        with transaction.atomic():
            for _ in range(3):
                record(happen(f"{number}-{next(users)}", name=f"name-{number}"), environment)
                time.sleep(chance.random() / 100)


def look_again(watermark: str, seen: set[str]) -> str:
    """Read again: record the new rows, and return the next watermark."""
    with transaction.atomic():
        following = take_watermark()
        seen.update(seen_since(watermark))
    return following


@on_postgresql
def test_arrived__transaction_that_commits_after_the_mark__tells_its_rows_though_their_number_is_lower(
    production: Environment, threads: Threads
) -> None:
    gate = Gate()

    def write_and_wait() -> None:
        with transaction.atomic():
            record(happen("slow", name="other"), production)
            gate.pass_through()

    writing: Future[None] = threads.start(write_and_wait)
    gate.wait_for_arrival()
    record(happen("quick"), production)
    watermark = look()
    assert seen_since(watermark) == []
    gate.open()
    writing.result(SECONDS)

    assert list(Event.objects.order_by("arrival").values_list("user_id", flat=True)) == ["slow", "quick"]
    assert seen_since(watermark) == ["slow"]
    assert seen_since(look()) == []


@pytest.mark.one_server("numbers of restored rows are replaced before tables are spread")
@on_postgresql
def test_arrived__number_of_a_transaction_to_come__is_not_reported(production: Environment) -> None:
    watermark = look()
    record(happen("a", "b"), production)
    Event.objects.filter(user_id="b").update(arrival=2**62)

    assert seen_since(watermark) == ["a"]


def restore_ahead(events: QuerySet[Event]) -> int:
    """Give events the numbers of transactions to come, as a restored dump may do, and return the first."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_current_xact_id()::text::bigint + 1000")  # other databases use up numbers, too
        [ahead] = cursor.fetchone()
    for at, pk in enumerate(events.order_by("pk").values_list("pk", flat=True)):
        Event.objects.filter(pk=pk).update(arrival=ahead + at)
    return int(ahead)


def reach(number: int) -> None:
    """Begin transactions until this number has been used."""
    reached = 0
    with connection.cursor() as cursor:
        while reached < number:
            cursor.execute("SELECT pg_current_xact_id()::text::bigint")
            [reached] = cursor.fetchone()


@pytest.mark.one_server("numbers of restored rows are replaced before tables are spread")
@on_postgresql
def test_arrived__numbers_of_restored_rows_are_reached__are_reported_once(production: Environment) -> None:
    record(happen("a"), production)
    ahead = restore_ahead(Event.objects.all())
    watermark = look()
    assert seen_since(watermark) == []
    reach(ahead)

    assert seen_since(watermark) == ["a"]
    assert seen_since(look()) == []


def test_arrived__rows_of_the_transaction_that_looks__are_reported(production: Environment) -> None:
    watermark = look()
    with transaction.atomic():
        record(happen("a"), production)
        assert seen_since(watermark) == ["a"]


def test_arrived__rows_that_the_transaction_of_the_mark_writes_later__are_reported(
    production: Environment, threads: Threads
) -> None:
    with transaction.atomic():
        record(happen("a"), production)
        if connection.vendor == "postgresql":  # where others may commit meanwhile, with greater numbers
            threads.start(record, happen("b", name="other"), production).result(SECONDS)
        watermark = take_watermark()
        record(happen("c"), production)
        assert "c" in seen_since(watermark)
    assert "c" in seen_since(watermark)


@pytest.mark.parametrize("watermark", ["1 100:100: 0", "12345678901234567890 1:1: 0"])
def test_watermark__taken_in_another_database__is_none_of_here(watermark: str) -> None:
    assert is_watermark_of_this_database(look())
    assert not is_watermark_of_this_database(watermark)


@on_sqlite
def test_take_watermark__newest_rows_deleted_since__begins_an_epoch_of_its_own(production: Environment) -> None:
    record(happen("a"), production)
    watermarks = [look()]
    record(happen("b"), production)
    Event.objects.all().delete()
    watermarks.append(look())
    record(happen("c"), production)

    assert [seen_since(watermark) for watermark in watermarks] == [["c"], ["c"]]
    assert [int(watermark) for watermark in [*watermarks, look()]] == [1, 2, 3]


# --- every path ------------------------------------------------------------------------------------------------------

USERS = [f"user-{at:02}" for at in range(20)]
"""As many as are written by COPY, or by `executemany`."""


def test_arrival__one_event_by_itself__is_current(production: Environment) -> None:
    watermark = look()
    record_one(happen("a")[0], production)

    assert seen_since(watermark) == ["a"]


@pytest.mark.parametrize("users", [USERS[:3], USERS], ids=["few", "many"])
def test_arrival__events_of_a_batch__is_current(production: Environment, users: list[str]) -> None:
    watermark = look()
    record(happen(*users), production)

    assert seen_since(watermark) == users


@pytest.mark.parametrize("stored", [["user-00"], USERS])
def test_arrival__events_of_a_batch_that_were_there__stays(production: Environment, stored: list[str]) -> None:
    events = happen(*USERS)
    record([event for event in events if event.user_id in stored], production)
    watermark = look()
    record(events, production)

    assert seen_since(watermark) == [user for user in USERS if user not in stored]


def test_arrival__many_events_within_savepoints__is_that_of_the_whole_transaction(production: Environment) -> None:
    look()
    with transaction.atomic():
        with transaction.atomic():
            record(happen(*USERS), production)
        record(happen("a"), production)
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT {CURRENT[connection.vendor]}")
            [number] = cursor.fetchone()

    assert set(Event.objects.values_list("arrival", flat=True)) == {number}


@pytest.mark.parametrize(
    "save",
    [lambda event: event.save(force_insert=True), lambda event: Event.objects.bulk_create([event])],
    ids=["save", "bulk"],
)
def test_arrival__row_of_the_orm__is_current(production: Environment, save: Callable[[Event], object]) -> None:
    watermark = look()
    save(Event(id=new_id(), environment=production, user_id="a", name="seen", timestamp=NOON, received_at=NOON))
    assert seen_since(watermark) == ["a"]

    watermark = look()
    Event.objects.get().save(update_fields=["name", "arrival"])
    assert seen_since(watermark) == ["a"]
