"""Nothing is lost, doubled or left unanswered, whatever becomes of workers, connections, PostgreSQL and its disk.

These tests run a PostgreSQL of their own, and harm it while clients record and evaluate.
"""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import psycopg
import pytest

from tests.system.clock import Clock
from tests.system.cluster import Cluster, full, own_cluster, own_folder, small_disk
from tests.system.outages import frozen, locked, locked_for_recording, read_only, refusing
from tests.system.recorders import Ledger
from tests.system.relay import relayed
from tests.system.server import Server, wait_until
from tests.system.slow_clients import dripping, idle, silent
from tests.system.traffic import traffic

pytestmark = [
    pytest.mark.system,
    pytest.mark.faults,
    pytest.mark.skipif(
        os.environ.get("DATABASE_URL", "sqlite").startswith("sqlite"),
        reason="has a PostgreSQL of its own in any case: once is enough, in the run on PostgreSQL",
    ),
]

long = pytest.mark.long

WRITING = ("COPY", "INSERT", "COMMIT")
KILLED_OF_EACH, SECONDS_OF_KILLING = 5, 30


@pytest.fixture
def disk() -> Iterator[Path]:
    with own_folder() as folder, small_disk(folder, mebibytes=64) as mounted:
        yield mounted


@pytest.fixture
def start(start_server: Callable[..., Server]) -> Callable[..., Server]:
    """Start a server that does not wait for long, so that clients soon hear of a fault."""

    def start_impatient(url: str, **settings: str) -> Server:
        return start_server(url, DATABASE_TIMEOUT="2", DATABASE_IDLE_TIMEOUT="5", BODY_TIMEOUT="2", **settings)

    return start_impatient


# --- processes --------------------------------------------------------------------------------------------------------


def test_workers__killed__lose_nothing(cluster: Cluster, start: Callable[..., Server]) -> None:
    server = start(cluster.url)
    with traffic(server, kills=4) as ledger:
        for _ in range(4):
            server.replace_worker(server.worker_pids()[0])
            ledger.wait_for_progress()
    assert ledger.lost > 0


@long
def test_supervisor__killed__loses_nothing(cluster: Cluster, start: Callable[..., Server]) -> None:
    """Its workers end, and an operator starts it again."""
    server = start(cluster.url)
    with traffic(server, kills=4, restarts=True) as ledger:
        for _ in range(2):
            workers = server.worker_pids()
            assert server.process is not None
            os.kill(server.process.pid, signal.SIGKILL)
            wait_until(lambda ended=workers: not any(map(exists, ended)), "the workers end", 30)
            server.kill()
            server.start()
            ledger.wait_for_progress()


def exists(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def test_servers__given_the_same_at_once__store_it_once_and_refuse_nobody(
    cluster: Cluster, start_server: Callable[..., Server]
) -> None:
    first = start_server(cluster.url)
    second = start_server(cluster.url)
    with traffic(first, second) as ledger:
        ledger.wait_for_progress(20)
    assert (ledger.lost, ledger.unavailable) == (0, {})
    assert set(ledger.accepted.values()) == {1}


# --- the database -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "outage", [refusing, *(pytest.param(outage, marks=long) for outage in (frozen, locked_for_recording, read_only))]
)
def test_database__does_not_record_for_a_while__loses_nothing(
    cluster: Cluster, start: Callable[..., Server], outage: Callable[[Cluster], AbstractContextManager[None]]
) -> None:
    server = start(cluster.url)
    with traffic(server) as ledger:
        for _ in range(2):
            with outage(cluster):
                ledger.wait_for_refusals()
            ledger.wait_for_progress()


@long
@pytest.mark.parametrize("outage", [refusing, frozen, locked])
def test_workers__replaced_while_the_database_is_away__lose_nothing(
    cluster: Cluster, start: Callable[..., Server], outage: Callable[[Cluster], AbstractContextManager[None]]
) -> None:
    """They start from the last known state."""
    server = start(cluster.url)
    with traffic(server, kills=server.workers) as ledger:
        with outage(cluster):
            for killed in server.worker_pids():
                server.replace_worker(killed)
        ledger.wait_for_progress()


@long
def test_flag__changed_just_before_the_database_goes_away__is_evaluated_all_the_while(
    cluster: Cluster, start: Callable[..., Server]
) -> None:
    server = start(cluster.url)
    with traffic(server) as ledger:
        assert server.ask("PATCH", "/v1/flags/known", json={"description": "changed"}).status_code == 200
        with refusing(cluster):
            ledger.wait_for_refusals()
        ledger.wait_for_progress()


def test_connections__killed_in_the_middle_of_writing__lose_nothing(
    cluster: Cluster, start: Callable[..., Server]
) -> None:
    server = start(cluster.url)
    with traffic(server) as ledger, cluster.connect() as administrator:
        killed = kill_those_that_write(administrator)
        ledger.wait_for_progress()
    assert min(killed.values()) >= KILLED_OF_EACH, killed
    assert ledger.unavailable.total() > 0


def kill_those_that_write(administrator: psycopg.Connection) -> Counter[str]:
    """End backends in the middle of each statement, several times; how many, by the first word of the statement."""
    killed = Counter(dict.fromkeys(WRITING, 0))
    deadline = time.monotonic() + SECONDS_OF_KILLING
    while min(killed.values()) < KILLED_OF_EACH and time.monotonic() < deadline:
        for word in WRITING:
            rows = administrator.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE pid <> pg_backend_pid() AND state = 'active' AND query LIKE %s LIMIT 1",
                [f"{word}%"],
            )
            killed[word] += rows.rowcount
    return killed


@long
def test_connections__fall_silent__lose_nothing(cluster: Cluster, start: Callable[..., Server]) -> None:
    """As after a failover: the other end of each is gone without a word, and new connections work."""
    with relayed(cluster.url) as (url, relay):
        server = start(url)
        with traffic(server) as ledger:
            for _ in range(2):
                relay.silence()
                ledger.wait_for_progress()


@long
def test_disk__of_the_tables_is_full_for_a_while__loses_nothing(
    disk: Path, cluster: Cluster, start: Callable[..., Server]
) -> None:
    with cluster.connect() as administrator:
        administrator.execute(f"CREATE TABLESPACE small LOCATION '{disk}'")
        administrator.execute("CREATE DATABASE halyard TABLESPACE small")
    server = start(cluster.url.removesuffix("postgres") + "halyard")
    with traffic(server) as ledger:
        with full(disk):
            ledger.wait_for_refusals()
        ledger.wait_for_progress()
    assert "could not extend file" in cluster.log.read_text()


@long
def test_disk__of_the_log_is_full_for_a_while__loses_nothing(disk: Path, start: Callable[..., Server]) -> None:
    """PostgreSQL ends itself then, and stays away until there is room again."""
    sizes = {"min_wal_size": "2MB", "max_wal_size": "8MB"}
    with own_cluster(f"--waldir={disk / 'log'}", "--wal-segsize=1", **sizes) as cluster:
        server = start(cluster.url)
        with traffic(server) as ledger:
            with full(disk):
                ledger.wait_for_refusals()
                wait_until(cluster.has_ended, "PostgreSQL gives up", 60)
            cluster.start()
            ledger.wait_for_progress()
        assert "No space left on device" in cluster.log.read_text()


# --- clients, and the clock -------------------------------------------------------------------------------------------


def wait_for_slow_clients(server: Server, ledger: Ledger) -> None:
    with silent(server, 500), dripping(server, 500):
        ledger.wait_for_progress(20)


def wait_for_slow_clients_with_a_key(server: Server, ledger: Ledger) -> None:
    key = server.keys["production"]["client"]
    with silent(server, 10, key=key), dripping(server, 10, key=key):
        ledger.wait_for_progress(20)


def wait_for_idle_clients(server: Server, ledger: Ledger) -> None:
    with idle(server, 3000):
        ledger.wait_for_progress(20)


@long
@pytest.mark.parametrize("wait", [wait_for_slow_clients, wait_for_slow_clients_with_a_key, wait_for_idle_clients])
def test_clients__many_that_say_nothing__lose_nothing_for_others(
    cluster: Cluster, start: Callable[..., Server], wait: Callable[[Server, Ledger], None]
) -> None:
    server = start(cluster.url)
    with traffic(server) as ledger:
        wait(server, ledger)


@long
def test_clock__jumps_forward_and_back__loses_nothing(
    cluster: Cluster, start: Callable[..., Server], tmp_path: Path
) -> None:
    clock = Clock(tmp_path)
    server = start(cluster.url, **clock.settings)
    with traffic(server) as ledger:
        for seconds in (3600, 0):
            clock.set(seconds)
            ledger.wait_for_progress(20)
