"""Reads from a standby: when it is used, and what is read instead when it is not.

`tests/system/test_replicas.py` has a real one.
"""

from __future__ import annotations

import logging
from math import inf
from typing import Any

import psycopg
import pytest
from django.db import DataError, Error, connection, connections, transaction
from django.test.utils import CaptureQueriesContext

from config.database import replica
from config.database.postgresql.connection import Connection
from config.database.replica import REPLICA, PrimaryLog, Reason, ReplicaLog, ReplicaReads, compare_logs, end_of_records
from config.models import Environment
from config.monitoring import counting
from events.models import Event, EventCount
from tests.factories import EventFactory
from tests.replica_logs import BEHIND, CURRENT, OTHER, PRIMARY_LOG
from tests.system.server import wait_until

PAGE, FILE = 8192, 2**24

on_postgresql = pytest.mark.skipif("connection.vendor != 'postgresql'", reason="SQLite has no standby")


@pytest.mark.parametrize(
    ("replica_log", "reason"),
    [
        (ReplicaLog(7, 2, 1000), Reason.CURRENT),
        (ReplicaLog(7, 2, 1001), Reason.CURRENT),
        (ReplicaLog(7, 2, 999), Reason.BEHIND),
        (ReplicaLog(8, 2, 1000), Reason.OTHER_DATABASE),
        (ReplicaLog(7, 2, None), Reason.OTHER_DATABASE),
        (ReplicaLog(7, 1, 5000), Reason.OTHER_DATABASE),
        (ReplicaLog(7, 3, 5000), Reason.OTHER_DATABASE),
    ],
    ids=["same", "further", "behind", "other cluster", "no standby", "former primary's", "later timeline"],
)
def test_compare_logs__standby__is_current_only_with_the_whole_log_of_this_primary(
    replica_log: ReplicaLog, reason: Reason
) -> None:
    assert compare_logs(PRIMARY_LOG, replica_log) is reason


def test_compare_logs__primary_that_is_a_standby_itself__cannot_be_compared() -> None:
    assert compare_logs(PrimaryLog(7, None, 0), ReplicaLog(7, 2, 1000)) is Reason.OTHER_DATABASE


@pytest.mark.parametrize(
    ("inserted", "end"),
    [
        (3 * FILE + 40, 3 * FILE),
        (3 * FILE + PAGE + 24, 3 * FILE + PAGE),
        (3 * FILE + PAGE + 40, 3 * FILE + PAGE + 40),
        (3 * FILE + PAGE, 3 * FILE + PAGE),
        (3 * FILE + 24, 3 * FILE + 24),
        (3 * FILE + PAGE + 1000, 3 * FILE + PAGE + 1000),
    ],
    ids=["new file", "new page", "16 bytes of a record", "no header yet", "not a place", "within a page"],
)
def test_end_of_records__header_of_the_next_page__is_left_out(inserted: int, end: int) -> None:
    assert end_of_records(inserted, PAGE, FILE) == end


# --- with a second connection to the same database --------------------------------------------------------------------


def used() -> str:
    """Return the database that a read of events uses."""
    return ReplicaReads(Event).read(lambda: Event.objects.all().db)


def counted(database: str, reason: Reason) -> float:
    name = ("halyard_event_reads_total", database, reason.value)
    return sum(numbers[0] for reading in counting.read_all() for found, numbers in reading.part.read() if found == name)


@on_postgresql
def test_read__current_replica__is_used_for_these_models_alone(replica_logs: list[ReplicaLog]) -> None:
    before = counted("replica", Reason.CURRENT)
    databases = ReplicaReads(Event).read(
        lambda: [model.objects.all().db for model in (Event, EventCount, Environment)]  # type: ignore[attr-defined]
    )
    assert databases == ["replica", "default", "default"]
    assert Event.objects.all().db == "default"
    assert counted("replica", Reason.CURRENT) == before + 1


@on_postgresql
@pytest.mark.parametrize(("said", "reason"), [(BEHIND, Reason.BEHIND), (OTHER, Reason.OTHER_DATABASE)])
def test_read__replica_that_lacks_something__is_not_used(
    replica_logs: list[ReplicaLog], said: ReplicaLog, reason: Reason
) -> None:
    before = counted("primary", reason)
    replica_logs.append(said)
    assert used() == "default"
    assert counted("primary", reason) == before + 1
    replica_logs.append(CURRENT)
    assert used() == "replica"


@on_postgresql
def test_read__replica_that_lags__is_waited_for_unless_that_was_in_vain_just_now(
    replica_logs: list[ReplicaLog], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replica, "_SECONDS_TO_CATCH_UP", 30)
    answers = [CURRENT, BEHIND, BEHIND]
    monkeypatch.setattr(replica, "read_replica_log", lambda: answers.pop())
    assert (used(), answers) == ("replica", [])
    answers = [CURRENT, BEHIND]
    replica._process.waits_from = inf
    assert (used(), answers) == ("default", [CURRENT])


@on_postgresql
def test_read__pages_of_a_file__stay_with_the_primary_once_one_was_read_there(replica_logs: list[ReplicaLog]) -> None:
    reads = ReplicaReads(Event)
    found = []
    for said in (CURRENT, BEHIND, CURRENT):
        replica_logs.append(said)
        found.append(reads.read(lambda: Event.objects.all().db))
    assert found == ["replica", "default", "default"]


@on_postgresql
def test_read__within_a_transaction__sees_what_that_has_written(
    replica_logs: list[ReplicaLog], production: Any
) -> None:
    with transaction.atomic():
        EventFactory(environment=production)
        assert ReplicaReads(Event).read(Event.objects.count) == 1


@on_postgresql
def test_read__other_servers_have_rows__is_of_the_primary(
    replica_logs: list[ReplicaLog], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replica, "read_primary_log", lambda: PrimaryLog(7, None, 0))
    assert used() == "default"


@on_postgresql
def test_read__primary_that_does_not_say_how_far_it_is__is_read(
    replica_logs: list[ReplicaLog], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse() -> PrimaryLog:
        raise Error("permission denied for function pg_control_system")

    monkeypatch.setattr(replica, "read_primary_log", refuse)
    assert [used(), used()] == ["default", "default"]
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


@on_postgresql
def test_read__replica_that_breaks_in_the_middle__is_repeated_on_the_primary_until_it_answers(
    replica_logs: list[ReplicaLog], caplog: pytest.LogCaptureFixture, production: Any
) -> None:
    EventFactory(environment=production)
    databases = []

    def read() -> int:
        events = Event.objects.all()
        databases.append(events.db)
        if events.db == REPLICA:
            end(connections[REPLICA].connection)
        return events.count()

    assert ReplicaReads(Event).read(read) == 1
    assert databases == ["replica", "default"]
    wait_until(lambda: not replica._process.is_away, "the replica answers", 30)
    assert used() == "replica"
    assert [record.message.partition(",")[0] for record in caplog.records] == [
        "The replica does not answer", "The replica answers again",
    ]  # fmt: skip


def end(opened: Any) -> None:
    """End the connection from the side of the server."""
    with psycopg.connect(**connection.get_connection_params(), autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s, 10000)", [opened.info.backend_pid])


@on_postgresql
def test_read__replica_that_is_away__is_left_alone(
    replica_logs: list[ReplicaLog], monkeypatch: pytest.MonkeyPatch
) -> None:
    replica._process.is_away = True

    def fail() -> None:
        raise AssertionError("asked")

    monkeypatch.setattr(replica, "read_primary_log", fail)
    monkeypatch.setattr(replica, "read_replica_log", fail)
    assert used() == "default"


@on_postgresql
def test_read__statement_that_the_replica_ends__is_repeated_and_the_replica_stays(
    replica_logs: list[ReplicaLog],
) -> None:
    def read() -> str:
        database = Event.objects.all().db
        if database == REPLICA:
            with connections[REPLICA].cursor() as cursor:
                cursor.execute("SET LOCAL statement_timeout = 10")
                cursor.execute("SELECT pg_sleep(3)")
        return database

    assert ReplicaReads(Event).read(read) == "default"
    assert used() == "replica"


@on_postgresql
def test_read__defect_of_the_statement__is_an_error_as_without_a_replica(replica_logs: list[ReplicaLog]) -> None:
    def read() -> None:
        with connections[Event.objects.all().db].cursor() as cursor:
            cursor.execute("SELECT 1 / 0")

    with pytest.raises(DataError):
        ReplicaReads(Event).read(read)


@on_postgresql
def test_read__server_that_hangs__is_given_up_soon(
    replica_logs: list[ReplicaLog], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replica, "_SECONDS_TO_ANSWER", 0.05)

    def hang() -> ReplicaLog:
        with connections[REPLICA].cursor() as cursor:
            cursor.execute("SELECT pg_sleep(3)")
        raise AssertionError("it answered")

    with monkeypatch.context() as patched:
        patched.setattr(replica, "read_replica_log", hang)
        assert used() == "default"
        assert replica._process.is_away
    wait_until(lambda: not replica._process.is_away, "the replica answers", 30)
    assert used() == "replica"


@on_postgresql
@pytest.mark.django_db(transaction=True)
def test_connection__limit_of_a_block__holds_also_where_statements_have_none() -> None:
    with Connection.connect(**connection.get_connection_params()) as opened:
        opened.max_wait = 0.05
        with pytest.raises(psycopg.OperationalError, match="does not answer"):
            opened.execute("SELECT pg_sleep(3)")
        assert opened.closed


def test_read__without_a_replica__asks_nothing(production: Any) -> None:
    with CaptureQueriesContext(connection) as captured:
        assert ReplicaReads(Event).read(Event.objects.count) == 0
    assert len(captured) == 1


@on_postgresql
@pytest.mark.one_server("with workers, no log has all data")
@pytest.mark.django_db(transaction=True)
def test_ask_primary__a_server_alone__says_how_far_its_log_goes() -> None:
    first = replica.read_primary_log()
    Environment.objects.update(name="changed")
    second = replica.read_primary_log()
    assert (first.system, first.timeline) == (second.system, second.timeline)
    assert first.timeline == 1
    assert first.end < second.end


def test_router__replica__is_never_migrated() -> None:
    router = replica.Router()
    assert (router.allow_migrate(REPLICA, "events"), router.allow_migrate("default", "events")) == (False, None)
