"""Consistent reads: they do not see later commits, do not block writers, and leave no state behind."""

from __future__ import annotations

from uuid import uuid4

import pytest
from django.db import DatabaseError, connection, transaction
from django.test.utils import CaptureQueriesContext

from config.database.postgresql.base import _routes
from config.database.transactions import keep_snapshots_from_beginning, read_consistently
from config.models import Environment
from events.models import Event
from tests.conftest import NOON
from tests.system.server import wait_until
from tests.threads import SECONDS, Threads

pytestmark = pytest.mark.django_db(transaction=True)

on_sqlite = pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL has many writers at a time")
on_postgresql = pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite lets such a transaction write")


def rename(name: str) -> None:
    with transaction.atomic():
        Environment.objects.filter(key="production").update(name=name)


def rename_elsewhere(threads: Threads, name: str) -> None:
    threads.start(rename, name).result(SECONDS)


def name_now() -> str:
    return Environment.objects.values_list("name", flat=True).get(key="production")


def test_read_consistently__another_commits_meanwhile__sees_what_was_there_at_first(threads: Threads) -> None:
    with read_consistently():
        before = name_now()
        rename_elsewhere(threads, "Renamed")
        assert name_now() == before
    assert name_now() == "Renamed"


def test_read_consistently__first_statement_of_a_connection__keeps_nobody_from_writing(threads: Threads) -> None:
    def read() -> tuple[str, str]:
        assert connection.connection is None
        with read_consistently():
            before = name_now()
            rename_elsewhere(threads, "Renamed")
            return before, name_now()

    before, later = threads.start(read).result(SECONDS)
    assert before == later != "Renamed"


@on_sqlite
def test_read_consistently__others_write_before_its_first_statement__does_not_wait_for_them(threads: Threads) -> None:
    with transaction.atomic():
        before = name_now()
        rename("Renamed")

        def read() -> str:
            with read_consistently():
                return name_now()

        assert threads.start(read).result(SECONDS) == before


@pytest.mark.parametrize("is_broken_off", [False, True])
def test_read_consistently__afterwards__transactions_are_as_before(threads: Threads, is_broken_off: bool) -> None:
    def how_one_begins() -> list[str]:
        with CaptureQueriesContext(connection) as queries:
            rename("Renamed")
        return [query["sql"] for query in queries if query["sql"].startswith(("BEGIN", "SET"))]

    before = how_one_begins()
    if is_broken_off:
        with pytest.raises(ZeroDivisionError), read_consistently():
            raise ZeroDivisionError
    else:
        with read_consistently():
            name_now()
    assert not connection.in_atomic_block
    assert how_one_begins() == before
    assert name_now() == "Renamed"


def test_read_consistently__in_a_transaction__adds_nothing_to_it(threads: Threads, django_assert_num_queries) -> None:
    with transaction.atomic():
        with django_assert_num_queries(1), read_consistently():
            name_now()
        with read_consistently():
            rename("Renamed")
    assert name_now() == "Renamed"


def test_read_consistently__within_another__is_of_the_same_moment(threads: Threads) -> None:
    with read_consistently():
        before = name_now()
        rename_elsewhere(threads, "Renamed")
        with read_consistently():
            assert name_now() == before
        assert name_now() == before


@on_postgresql
def test_read_consistently__writing_in_it__is_refused(threads: Threads) -> None:
    with pytest.raises(DatabaseError, match="read-only"), read_consistently():
        rename("Renamed")
    assert name_now() != "Renamed"


# --- on several servers -----------------------------------------------------------------------------------------------


def write_event(name: str) -> None:
    """Change a table of the coordinator and one of its workers, and keep readers from beginning in between."""
    with transaction.atomic():
        environment = Environment.objects.get(key="production")
        Event.objects.create(
            id=uuid4(), environment=environment, user_id="u", name=name, timestamp=NOON, received_at=NOON
        )
        rename(name)
        keep_snapshots_from_beginning()


def events_now() -> list[str]:
    return list(Event.objects.values_list("name", flat=True))


@pytest.mark.distributed
def test_read_consistently__another_changes_totals_meanwhile__neither_waits_nor_sees_it(threads: Threads) -> None:
    with read_consistently():
        threads.start(write_event, "Renamed").result(SECONDS)
        assert (name_now(), events_now()) == ("Production", [])
    assert (name_now(), events_now()) == ("Renamed", ["Renamed"])


@pytest.mark.distributed
@pytest.mark.parametrize("is_pooled", [False, True])
def test_read_consistently__while_another_commits_totals__begins_after_it(
    threads: Threads, monkeypatch: pytest.MonkeyPatch, is_pooled: bool
) -> None:
    monkeypatch.setitem(connection.settings_dict, "DISABLE_SERVER_SIDE_CURSORS", False)  # which a pool changes
    monkeypatch.setattr(_routes[connection.alias], "is_pooled", is_pooled)

    def read() -> tuple[str, list[str]]:
        with read_consistently():
            return name_now(), events_now()

    with transaction.atomic():
        write_event("Renamed")
        reading = threads.start(read)
        wait_until(lambda: locks_on_snapshots() == [False, True], "the reader waits", SECONDS)
    assert reading.result(SECONDS) == ("Renamed", ["Renamed"])
    assert locks_on_snapshots() == []


@pytest.mark.distributed
def test_read_consistently__fails_at_its_beginning__leaves_no_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    connection.ensure_connection()
    monkeypatch.setattr(connection, "_distributed_tables", frozenset({"no_such_table"}))
    with pytest.raises(DatabaseError, match="no_such_table"), read_consistently():
        pass
    wait_until(lambda: locks_on_snapshots() == [], "the lock is released", SECONDS)
    assert name_now() == "Production"


def locks_on_snapshots() -> list[bool]:
    """Return for each lock on snapshots whether it is held, and not waited for."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT granted FROM pg_locks WHERE locktype = 'advisory' AND classid = 3 AND database = "
            "(SELECT oid FROM pg_database WHERE datname = current_database()) ORDER BY granted"
        )
        return [is_held for (is_held,) in cursor.fetchall()]
