"""Exports by a real server: at constant memory however slowly they are read, and torn where the
database goes away.
"""

from __future__ import annotations

import csv
import io
import json
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from urllib.parse import urlsplit, urlunsplit
from uuid import UUID

import httpx
import psycopg
import pytest

from tests.benchmarks.load import resident_mib
from tests.system.server import ROOT, Server, wait_until

pytestmark = pytest.mark.system

EVENTS = 20_000
PROPERTIES = {"text": "x" * 1000}
"""The file is larger than all buffers between the server and its client."""
NDJSON, CSV = "application/x-ndjson", "text/csv"
PATH = "/v1/events?event=see"
MOST_GROWTH_MIB = 20


@pytest.fixture(scope="module")
def filled(server: Server) -> Server:
    with server.client() as client:
        for at in range(0, EVENTS, 1000):
            events = [
                {"event": "see", "userId": f"u{number}", "id": str(UUID(int=number + 1)), "properties": PROPERTIES}
                for number in range(at, at + 1000)
            ]
            client.post("/v1/events/batch", json={"events": events}).raise_for_status()
    return server


@contextmanager
def exporting(server: Server, accept: str) -> Iterator[httpx.Response]:
    with server.client("server") as client, client.stream("GET", PATH, headers={"Accept": accept}) as response:
        yield response


def test_export__read_slowly__holds_a_few_pages_and_leaves_the_others_alone(
    filled: Server, start_server: Callable[..., Server]
) -> None:
    # With two threads, the second one's connection to the database is all that may come after the warm-up.
    server = start_server(filled.environment["DATABASE_URL"], workers=1, THREADS="2")
    ask_for_all(server)
    before = {pid: resident_mib(pid) for pid in server.worker_pids()}
    users, slowest = set(), 0.0
    with exporting(server, NDJSON) as response:
        for at, line in enumerate(response.iter_lines()):
            users.add(json.loads(line)["userId"])
            if at % 1000 == 0:
                time.sleep(0.02)
                started = time.monotonic()
                assert server.ask("GET", "/v1/flags").status_code == 200
                slowest = max(slowest, time.monotonic() - started)
                growth = max(resident_mib(pid) - mib for pid, mib in before.items())
                assert growth < MOST_GROWTH_MIB, f"{growth:.0f} MiB after {at} events"
    assert len(users) == EVENTS
    assert slowest < 5


def ask_for_all(server: Server) -> None:
    for accept, lines in ((NDJSON, EVENTS), (CSV, EVENTS + 1)):
        response = server.ask("GET", PATH, headers={"Accept": accept})
        assert response.headers["Content-Type"].partition(";")[0] == accept
        assert len(response.text.splitlines()) == lines


def test_export__whose_client_leaves__ends_with_it(filled: Server) -> None:
    for _ in range(40):  # many times as many as have a place at a time
        wait_until(lambda: begins_and_leaves(filled), "one has a place", 30)


def begins_and_leaves(server: Server) -> bool:
    """The server learns of a client that has left when it sends on: until then there may be no
    place.
    """
    with exporting(server, CSV) as response:
        if response.status_code == 429:
            assert response.headers["Retry-After"]
            return False
        assert next(response.iter_bytes())
        return True


@pytest.mark.parametrize(
    ("command", "lines"),
    [
        pytest.param("export_events", 3, id="long, like head -n 3"),
        pytest.param("export_events", 0, id="long, unread"),
        pytest.param("export_flags", 0, id="short, unread"),
    ],
)
def test_export__by_a_command_whose_reader_has_enough__ends_without_a_word(
    filled: Server, command: str, lines: int
) -> None:
    with subprocess.Popen(
        [sys.executable, "manage.py", command],
        cwd=ROOT,
        env=filled.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        for _ in range(lines):
            json.loads(process.stdout.readline())
        process.stdout.close()
        complaints = process.stderr.read()
    assert (process.returncode, complaints) == (128 + signal.SIGPIPE, b"")


@pytest.mark.parametrize("accept", [NDJSON, CSV])
def test_export__that_loses_the_database__is_taken_for_whole_by_no_reader(filled: Server, accept: str) -> None:
    with exporting(filled, accept) as response:
        pieces = response.iter_raw()
        received = [next(pieces)]
        with broken_database(filled.environment["DATABASE_URL"]):
            received.extend(pieces)
    text = b"".join(received).decode()
    if accept == NDJSON:
        with pytest.raises(json.JSONDecodeError):
            [json.loads(line) for line in text.splitlines()]
    else:
        with pytest.raises(csv.Error):
            list(csv.reader(io.StringIO(text, newline=""), strict=True))
    assert 0 < text.count("\n") < EVENTS
    assert filled.ask("GET", "/v1/events?limit=1").status_code == 200


@contextmanager
def broken_database(url: str) -> Iterator[None]:
    """PostgreSQL ends all connections; in SQLite the table has another name for a while."""
    if not url.startswith("sqlite"):
        with psycopg.connect(urlunsplit(urlsplit(url)._replace(scheme="postgresql"))) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
            yield
        return
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"), timeout=30)) as database:
        database.execute("ALTER TABLE events_event RENAME TO events_away")
        yield
        database.execute("ALTER TABLE events_away RENAME TO events_event")
