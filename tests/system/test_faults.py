"""Nothing is lost and nothing counted twice, whatever becomes of workers, connections, PostgreSQL and its disk.

These tests run a PostgreSQL of their own, and harm it while clients record.
"""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import psycopg
import pytest

from tests.system.cluster import Cluster, full, own_cluster, own_folder, small_disk
from tests.system.connections import is_on_everywhere
from tests.system.recorders import check, recording
from tests.system.server import Server, wait_until

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(
        os.environ.get("DATABASE_URL", "sqlite").startswith("sqlite"),
        reason="has a PostgreSQL of its own in any case: once is enough, in the run on PostgreSQL",
    ),
]

WRITING = ("COPY", "INSERT", "COMMIT")
KILLED_OF_EACH, SECONDS_OF_KILLING = 5, 30


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with own_cluster() as running:
        yield running


@pytest.fixture
def disk() -> Iterator[Path]:
    with own_folder() as folder, small_disk(folder, mebibytes=64) as mounted:
        yield mounted


def test_workers__killed__lose_nothing(cluster: Cluster, start_server: Callable[..., Server]) -> None:
    server = start_server(cluster.url)
    with recording(server) as ledger:
        for _ in range(4):
            killed = server.worker_pids()[0]
            os.kill(killed, signal.SIGKILL)
            ledger.wait_for_progress()
            wait_until(partial(is_replaced, server, killed), "the worker is replaced", 30)
    assert ledger.lost > 0
    check(ledger, server)


def is_replaced(server: Server, killed: int) -> bool:
    workers = server.worker_pids()
    return len(workers) == server.workers and killed not in workers


def test_database__crashed_and_restarted__loses_nothing(cluster: Cluster, start_server: Callable[..., Server]) -> None:
    """Flags are evaluated all the while. Workers that start while it is away serve once it is back."""
    server = start_server(cluster.url)
    assert server.ask("POST", "/v1/flags", json={"key": "known", "enabled": True}).status_code == 201
    assert is_on_everywhere(server, "known") == {True}
    with recording(server) as ledger:
        cluster.stop("immediate")
        ledger.wait_for_refusals()
        assert is_on_everywhere(server, "known") == {True}
        cluster.start()
        ledger.wait_for_progress()
        cluster.stop("immediate")
        for killed in server.worker_pids():
            os.kill(killed, signal.SIGKILL)
            wait_until(partial(is_replaced, server, killed), "the worker is replaced", 30)
        ledger.wait_for_refusals()
        cluster.start()
        ledger.wait_for_progress()
    check(ledger, server)


def test_connections__killed_in_the_middle_of_writing__lose_nothing(
    cluster: Cluster, start_server: Callable[..., Server]
) -> None:
    server = start_server(cluster.url)
    with recording(server) as ledger, cluster.connect() as administrator:
        killed = kill_those_that_write(administrator)
        ledger.wait_for_progress()
    assert min(killed.values()) >= KILLED_OF_EACH, killed
    assert ledger.unavailable.total() > 0
    check(ledger, server)


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


def test_servers__given_the_same_at_once__store_it_once_and_refuse_nobody(
    cluster: Cluster, start_server: Callable[..., Server]
) -> None:
    first = start_server(cluster.url)
    second = start_server(cluster.url)
    with recording(first, second) as ledger:
        ledger.wait_for_progress(20)
    assert (ledger.lost, ledger.unavailable) == (0, {})
    assert set(ledger.accepted.values()) == {1}
    for server in (first, second):
        check(ledger, server)


def test_disk__of_the_tables_is_full_for_a_while__loses_nothing(
    disk: Path, cluster: Cluster, start_server: Callable[..., Server]
) -> None:
    with cluster.connect() as administrator:
        administrator.execute(f"CREATE TABLESPACE small LOCATION '{disk}'")
        administrator.execute("CREATE DATABASE halyard TABLESPACE small")
    server = start_server(cluster.url.removesuffix("postgres") + "halyard")
    with recording(server) as ledger:
        with full(disk):
            ledger.wait_for_refusals()
        ledger.wait_for_progress()
    assert "could not extend file" in cluster.log.read_text()
    check(ledger, server)


def test_disk__of_the_log_is_full_for_a_while__loses_nothing(disk: Path, start_server: Callable[..., Server]) -> None:
    """PostgreSQL ends itself then, and stays away until there is room again."""
    sizes = {"min_wal_size": "2MB", "max_wal_size": "8MB"}
    with own_cluster(f"--waldir={disk / 'log'}", "--wal-segsize=1", **sizes) as cluster:
        server = start_server(cluster.url)
        with recording(server) as ledger:
            with full(disk):
                ledger.wait_for_refusals()
                wait_until(cluster.has_ended, "PostgreSQL gives up", 60)
            cluster.start()
            ledger.wait_for_progress()
        assert "No space left on device" in cluster.log.read_text()
        check(ledger, server)
