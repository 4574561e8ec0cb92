"""`manage.py doctor`: what it finds, and what it says to do about that."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from io import StringIO
from typing import Any

import pytest
import time_machine
from django.core.management import CommandError, call_command
from django.db import OperationalError, connection
from django.db.migrations.recorder import MigrationRecorder

from config.database.replica import PrimaryLog, ReplicaLog
from config.management import database_examinations, host_examinations
from config.management.examinations import Level, Options, examine_all
from config.models import Change
from tests.config.test_checks import SECURE
from tests.conftest import NOON
from tests.factories import ExperimentFactory

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _production(settings: Any) -> None:
    for name, value in SECURE.items():
        setattr(settings, name, value)
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    settings.RUNTIME_DIR.chmod(0o700)


def findings(subject: str, level: Level, url: str | None = None) -> list[str]:
    """What is found of a subject at this level."""
    return [found.words for about, found in examine_all(Options(url)) if (about, found.level) == (subject, level)]


def problems(subject: str, url: str | None = None) -> list[str]:
    return [*findings(subject, Level.ERROR, url), *findings(subject, Level.WARNING, url)]


def run(*arguments: str) -> str:
    out = StringIO()
    call_command("doctor", *arguments, stdout=out)
    return out.getvalue()


def test_doctor__healthy_host__says_so_of_each_subject(settings: Any) -> None:
    with streams(401) as url:
        settings.STREAM_URL = url
        lines = run().splitlines()
    subjects = [line.split()[1] for line in lines if line.startswith("ok ")]
    assert list(dict.fromkeys(subjects)) == [
        "database:", "clock:", "distribution:", "settings:", "disk:", "proxy:", "streams:", "results:",
    ]  # fmt: skip


def test_doctor__every_problem__has_a_remedy(settings: Any) -> None:
    settings.SECRET_KEY, settings.SECURE_PROXY_SSL_HEADER = "short", None
    Change.objects.update(at=datetime(2100, 1, 1, tzinfo=UTC))
    found = [finding for _, finding in examine_all(Options("http://127.0.0.1:1"))]
    assert len([finding for finding in found if finding.level is not Level.OK]) >= 5
    assert all(finding.remedy for finding in found if finding.level is not Level.OK)


def test_doctor__error__is_counted_and_ends_with_1(settings: Any) -> None:
    settings.SECRET_KEY = "short"
    with pytest.raises(CommandError, match=r"^One of these must be mended\.$"):
        run()


def test_doctor__database_away__says_so_and_looks_at_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise OperationalError("connection refused\nwith a second line")

    monkeypatch.setattr(connection, "ensure_connection", fail)
    monkeypatch.setattr("config.management.examinations.require_schema", fail)
    assert problems("database") == ["It does not answer: connection refused"]
    assert findings("clock", Level.OK) == findings("results", Level.OK) == []
    assert findings("settings", Level.OK)


def test_doctor__missing_migration__is_named() -> None:
    MigrationRecorder(connection).record_unapplied("events", "0001_first_release")
    [problem] = problems("database")
    assert problem.startswith("The database lacks the migrations events.0001_first_release; run `manage.py migrate`")


@pytest.mark.parametrize(
    ("statement", "value", "problem"),
    [
        ("SHOW fsync", "off", "PostgreSQL may lose or damage data in a power cut."),
        ("SHOW synchronous_commit", "off", "PostgreSQL may lose events that were acknowledged just before a crash."),
        ("SELECT pg_is_in_recovery()", True, "This is a standby, which accepts no writes."),
        ("SHOW max_connections", "20", "max_connections is 20, and 2 workers may hold 30 connections."),
    ],
)
def test_doctor__postgresql__settings_that_do_harm_are_found(
    monkeypatch: pytest.MonkeyPatch, statement: str, value: Any, problem: str
) -> None:
    good = {
        "SHOW fsync": "on", "SHOW full_page_writes": "on", "SHOW synchronous_commit": "on",
        "SELECT pg_is_in_recovery()": False, "SHOW max_connections": "100",
    }  # fmt: skip
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    monkeypatch.setattr(database_examinations, "_value", (good | {statement: value}).__getitem__)
    assert [found.words for found in database_examinations._examine_postgresql() if found.level is not Level.OK] == [
        problem
    ]


@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has no clock of its own")
@time_machine.travel(NOON, tick=False)
def test_doctor__clock_that_differs_from_the_database__is_found() -> None:
    Change.objects.update(at=NOON)
    [problem] = problems("clock")
    assert problem.startswith("The clocks of this host and of the database differ by ")


def test_doctor__change_in_the_future__is_found() -> None:
    Change.objects.update(at=datetime(2100, 1, 1, tzinfo=UTC))
    assert "The newest change was made in the future, at 2100-01-01 00:00:00 UTC." in problems("clock")


@pytest.mark.parametrize(("free", "level"), [(2**40, Level.OK), (2**30 - 1, Level.WARNING), (2**27 - 1, Level.ERROR)])
def test_doctor__little_room__is_found(monkeypatch: pytest.MonkeyPatch, free: int, level: Level) -> None:
    monkeypatch.setattr(host_examinations.shutil, "disk_usage", lambda _: type("Usage", (), {"free": free}))
    assert findings("disk", level)[0].startswith("RUNTIME_DIR (")


def test_doctor__folder_that_others_can_read__is_found(settings: Any) -> None:
    settings.RUNTIME_DIR.chmod(0o755)
    assert problems("disk") == ["Other users of this machine can look into RUNTIME_DIR."]


def test_doctor__insecure_setting__is_found_with_the_words_of_its_check(settings: Any) -> None:
    settings.ALLOWED_HOSTS = ["*"]
    [problem] = problems("settings")
    assert problem.startswith("ALLOWED_HOSTS is insecure with DEBUG off")


@pytest.mark.parametrize(("hours", "count"), [(1, 0), (3, 1)])
def test_doctor__results_that_nobody_brings_up_to_date__are_found(hours: int, count: int) -> None:
    experiment = ExperimentFactory(running=True)
    experiment.started_at = NOON - timedelta(hours=hours)
    experiment.save()
    with time_machine.travel(NOON, tick=False):
        assert len(problems("results")) == count


@contextmanager
def streams(*statuses: int) -> Iterator[str]:
    """A server that answers each GET with the next of these statuses, and the last one from then on."""
    left = list(statuses)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(left.pop(0) if len(left) > 1 else left[0])
            self.send_header("Location", "https://flags.example.com/admin/login/")
            self.end_headers()
            self.wfile.write(b'{"status": "live"}')

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_doctor__proxy__is_asked_as_clients_ask(subtests: pytest.Subtests) -> None:
    for statuses, problem in [
        ((200, 200), None),
        ((502,), "/livez answers 502."),
        ((200, 301), "redirects to https://flags.example.com/admin/login/"),
        ((200, 400), "the service refuses this name of the host."),
        ((200, 500), "/admin/login/ answers 500."),
        ((200, 200, 301, 200), "The proxy passes a client's own X-Forwarded-Proto on."),
        ((200, 200, 200, 301, 200), "The proxy passes X_Forwarded_Proto on, which counts as X-Forwarded-Proto."),
        ((200, 200, 200, 200, 301), "The proxy passes X_Forwarded_Proto on, which counts as X-Forwarded-Proto."),
    ]:
        with subtests.test(statuses=statuses, problem=problem):
            with streams(*statuses) as url:
                found = findings("proxy", Level.ERROR, url)
            assert [problem in words for words in found] == ([True] if problem else [])


@pytest.mark.parametrize("url", ["ftp://flags.example.com", "flags.example.com", "http://127.0.0.1:1", "http://[::1"])
def test_doctor__address_that_does_not_answer__is_found(url: str) -> None:
    [problem] = findings("proxy", Level.ERROR, url)
    assert problem.startswith(f"{url} does not answer: ")


def test_doctor__proxy_header_not_set__is_found(settings: Any) -> None:
    settings.SECURE_PROXY_SSL_HEADER = None
    [problem] = problems("proxy")
    assert problem.startswith("SECURE_PROXY_SSL_HEADER is not set")


@pytest.mark.parametrize(("status", "count"), [(401, 0), (404, 1), (502, 1)])
def test_doctor__streams__answer_that_a_token_is_missing(settings: Any, status: int, count: int) -> None:
    with streams(status) as settings.STREAM_URL:
        assert len(problems("streams")) == count


def test_doctor__no_address_of_streams__is_found(settings: Any) -> None:
    settings.STREAM_URL = ""
    [problem] = problems("streams")
    assert problem.startswith("STREAM_URL is not set")


def test_doctor__no_replica__says_nothing_of_one() -> None:
    assert [finding for subject, finding in examine_all(Options()) if subject == "replica"] == []


@pytest.mark.parametrize(
    ("position", "replica_log", "words"),
    [
        (PrimaryLog(7, 2, 10), ReplicaLog(8, 2, 10), "It belongs to another PostgreSQL cluster."),
        (PrimaryLog(7, 2, 10), ReplicaLog(7, 2, None), "It is no standby, because it accepts writes."),
        (PrimaryLog(7, 2, 10), ReplicaLog(7, 1, 10), "It follows timeline 1, and the primary writes timeline 2."),
        (PrimaryLog(7, None, 0), ReplicaLog(7, 2, 10), "DATABASE_URL is a standby, or a coordinator of Citus."),
    ],
)
def test_doctor__replica_that_cannot_be_read__is_an_error(
    monkeypatch: pytest.MonkeyPatch, position: PrimaryLog, replica_log: ReplicaLog, words: str
) -> None:
    monkeypatch.setattr(database_examinations, "has_replica", lambda: True)
    monkeypatch.setattr(database_examinations, "read_primary_log", lambda: position)
    monkeypatch.setattr(database_examinations, "read_replica_log", lambda: replica_log)
    assert findings("replica", Level.ERROR) == [words]


def answer(of_receiver: tuple[bool, bool], of_replay: tuple[int | None], statement: str) -> tuple[Any, ...]:
    """What the replica answers to a statement."""
    return of_receiver if "pg_stat_wal_receiver" in statement else of_replay


def test_doctor__replica__says_whether_it_streams_and_how_far_behind_it_is(
    subtests: pytest.Subtests, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_examinations, "has_replica", lambda: True)
    monkeypatch.setattr(database_examinations, "read_primary_log", lambda: PrimaryLog(7, 2, 10))
    monkeypatch.setattr(database_examinations, "_SECONDS_TO_CATCH_UP", 0)
    for is_receiving, is_paused, replayed, level, words in [
        (True, False, 10, Level.OK, "It streams, and has replayed what the primary had when this began."),
        (True, True, 4, Level.WARNING, "Replay is paused. It is 6 bytes of the log behind"),
        (False, False, 4, Level.WARNING, "It does not stream from the primary. It is 6 bytes of the log behind"),
        (True, False, 4, Level.WARNING, "It streams, but slowly. It is 6 bytes of the log behind"),
    ]:
        for since, more in [(None, "."), (70, ", and last replayed a commit of 70 seconds ago.")]:
            with subtests.test(is_receiving=is_receiving, is_paused=is_paused, since=since, more=more):
                of_receiver, of_replay = (is_receiving, is_paused), (since,)
                monkeypatch.setattr(database_examinations, "read_replica_log", partial(ReplicaLog, 7, 2, replayed))
                monkeypatch.setattr(database_examinations, "_ask", partial(answer, of_receiver, of_replay))
                assert findings("replica", level) == [words if level is Level.OK else words + more]


def test_doctor__replica_away__is_a_warning_because_the_primary_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> ReplicaLog:
        raise OperationalError("connection refused\nwith a second line")

    monkeypatch.setattr(database_examinations, "has_replica", lambda: True)
    monkeypatch.setattr(database_examinations, "read_primary_log", lambda: PrimaryLog(7, 2, 10))
    monkeypatch.setattr(database_examinations, "read_replica_log", fail)
    assert findings("replica", Level.WARNING) == ["It does not answer: connection refused"]
