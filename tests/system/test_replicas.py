"""A server with a real streaming standby: its lists and exports miss nothing, and fail for no fault of the standby."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest

from tests.system.cluster import Cluster, own_cluster, own_standby
from tests.system.server import Server, keys_of_databases, serving, wait_until
from tests.system.test_metrics import shown

pytestmark = [
    pytest.mark.system,
    pytest.mark.faults,
    pytest.mark.skipif(
        os.environ.get("DATABASE_URL", "sqlite").startswith("sqlite"),
        reason="has PostgreSQL servers of its own in any case: once is enough, in the run on PostgreSQL",
    ),
]

ROUNDS = 30
NDJSON, CSV = "application/x-ndjson", "text/csv"


@pytest.fixture(scope="module")
def primary(shared_cluster: Cluster) -> Cluster:
    return shared_cluster


@pytest.fixture(scope="module")
def standby(primary: Cluster) -> Iterator[Cluster]:
    with own_standby(primary) as running:
        yield running


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, primary: Cluster, standby: Cluster) -> Iterator[Server]:
    """A server with the standby, for tests that leave that as it was."""
    # Half of the threads may write files. Five clients read here, and each may ask for its next file before the
    # server has noticed that it has the last one.
    options: Any = {"workers": 1, "THREADS": "20", "DATABASE_TIMEOUT": "3"}
    with serving(tmp_path_factory.mktemp("server"), primary.url, REPLICA_URL=standby.url, **options) as running:
        yield running


def reads(server: Server, database: str, reason: str) -> float:
    """How many lists and files came from the replica or the primary, for this reason."""
    return shown(server).get(f'halyard_event_reads_total{{database="{database}",reason="{reason}"}}', 0)


def record(server: Server) -> str:
    """Return the id of a new event that has been acknowledged."""
    event = str(uuid4())
    answer = server.ask("POST", "/v1/events", json={"id": event, "event": "see", "userId": "ada"})
    assert answer.status_code == 202, answer.text
    return event


def lists(server: Server) -> dict[str, str]:
    """Return the id of the newest event, as each list and file shows it."""
    newest = {}
    for name, accept in (("query", "application/json"), ("ndjson", NDJSON), ("csv", CSV)):
        answer = server.ask("GET", "/v1/events", headers={"Accept": accept})
        assert answer.status_code == 200, answer.text
        newest[name] = _newest(answer.text, accept)
    return newest


def _newest(text: str, accept: str) -> str:
    if accept == NDJSON:
        return str(json.loads(text.partition("\n")[0])["id"])
    if accept == CSV:
        return next(csv.DictReader(io.StringIO(text, newline="")))["id"]
    return str(json.loads(text)["data"][0]["id"])


def count(server: Server) -> int:
    answer = server.ask("GET", f"/v1/events/counts?from={datetime.now(UTC):%Y-%m-%d}")
    assert answer.status_code == 200, answer.text
    return int(answer.json()["data"]["total"])


def check(server: Server) -> None:
    """Record an event, and see that everything shows it."""
    before = count(server)
    event = record(server)
    assert lists(server) == {"query": event, "ndjson": event, "csv": event}
    assert count(server) == before + 1


def test_lists__replica_that_streams__show_each_event_as_soon_as_it_is_acknowledged(server: Server) -> None:
    before = reads(server, "replica", "current")
    for _ in range(ROUNDS):
        check(server)
    assert reads(server, "replica", "current") > before + ROUNDS


def test_lists__log_that_ends_at_a_new_file__are_read_from_the_replica(server: Server, primary: Cluster) -> None:
    """The primary then counts the header of a page that it has not written, and that no replica replays."""
    record(server)
    with primary.connect() as connection:

        def end_of_log() -> str:
            [[end]] = connection.execute("SELECT pg_current_wal_insert_lsn()::text").fetchall()
            return str(end)

        def are_read_there() -> bool:
            connection.execute("SELECT pg_switch_wal()")
            end, before = end_of_log(), reads(server, "replica", "current")
            lists(server)
            return reads(server, "replica", "current") >= before + 3 and end_of_log() == end

        wait_until(are_read_there, "they are read from the replica while nothing is written", 30)


def test_lists__acknowledged_before_the_log_is_flushed__show_it(
    start_server: Callable[..., Server], primary: Cluster, standby: Cluster
) -> None:
    url = f"{primary.url}?options=-c%20synchronous_commit%3Doff"
    server = start_server(url, keys=keys_of_databases[primary.url], workers=1, REPLICA_URL=standby.url)
    for _ in range(ROUNDS):
        check(server)


def test_lists__replay_is_paused__come_from_the_primary(server: Server, standby: Cluster) -> None:
    check(server)
    before = reads(server, "primary", "behind")
    with standby.connect() as connection:
        connection.execute("SELECT pg_wal_replay_pause()")
        check(server)
        assert reads(server, "primary", "behind") > before
        assert "Replay is paused" in server.run("manage.py", "doctor")
        connection.execute("SELECT pg_wal_replay_resume()")
    before = reads(server, "replica", "current")
    wait_until(lambda: bool(lists(server)) and reads(server, "replica", "current") > before, "it is read again", 120)
    assert "It streams, and has replayed what the primary had" in server.run("manage.py", "doctor")


def test_lists__replica_crashes_and_returns__none_fails(server: Server, standby: Cluster) -> None:
    check(server)
    messages = "The replica does not answer", "The replica answers again"
    said = [server.log.read_text().count(message) for message in messages]
    with reading(server):
        wait_until_more(server, "replica", "current")
        standby.stop("immediate")
        check(server)
        wait_until_more(server, "primary", "away")
        standby.start()
        wait_until_more(server, "replica", "current")
    check(server)
    assert [server.log.read_text().count(message) for message in messages] == [count + 1 for count in said]


def wait_until_more(server: Server, database: str, reason: str) -> None:
    before = reads(server, database, reason)
    wait_until(lambda: reads(server, database, reason) > before + 20, f"the {database} is read", 120)


@contextmanager
def reading(server: Server) -> Iterator[None]:
    """Threads that read lists and files without a pause. Each answer must be whole."""
    must_stop, failures = threading.Event(), list[BaseException]()

    def read() -> None:
        while not must_stop.is_set() and not failures:
            try:
                lists(server)
            except BaseException as error:
                failures.append(error)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        must_stop.set()
        for thread in threads:
            thread.join()
        if failures:  # in place of what this test waits for in vain, because nothing reads any longer
            raise failures[0]


def test_lists__replica_that_hangs__none_fails(server: Server, standby: Cluster) -> None:
    check(server)
    before = reads(server, "primary", "away")
    standby.signal(signal.SIGSTOP)
    try:
        check(server)
        assert reads(server, "primary", "away") > before
        assert "It does not answer" in server.run("manage.py", "doctor")
    finally:
        standby.signal(signal.SIGCONT)
    before = reads(server, "replica", "current")
    wait_until(lambda: bool(lists(server)) and reads(server, "replica", "current") > before, "it is read again", 120)


def test_lists__replica_that_took_over__come_from_the_primary(
    start_server: Callable[..., Server], primary: Cluster
) -> None:
    with own_standby(primary) as promoted:
        server = start_server(primary.url, workers=1, REPLICA_URL=promoted.url)
        check(server)
        promoted.promote()
        check(server)
        assert reads(server, "primary", "other_database") > 0


def test_lists__replica_of_another_cluster__come_from_the_primary(
    start_server: Callable[..., Server], primary: Cluster
) -> None:
    with own_cluster() as other:
        server = start_server(primary.url, workers=1, REPLICA_URL=other.url)
        check(server)
        assert reads(server, "primary", "other_database") > 0
        assert reads(server, "replica", "current") == 0


def test_server__replica_that_is_away_from_the_start__serves(
    start_server: Callable[..., Server], primary: Cluster
) -> None:
    server = start_server(primary.url, workers=1, REPLICA_URL="postgres://nobody@127.0.0.1:1/nothing")
    check(server)
