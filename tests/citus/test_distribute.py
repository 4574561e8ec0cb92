"""`manage.py distribute` on databases that are in use, that come from elsewhere, and by roles of every kind."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest

from config.database.postgresql.base import SPREADING
from tests.citus.cluster import CitusCluster
from tests.system.databases import for_psycopg
from tests.system.pooler import pooled
from tests.system.server import Server, serving, wait_until
from tests.system.traffic import traffic

pytestmark = pytest.mark.citus

_PLACED = "SELECT count(*) FROM pg_dist_partition WHERE partmethod = 'h'"
_COPYING = """
    SELECT count(*) FROM pg_stat_activity
    WHERE state = 'active' AND query LIKE 'SELECT create_distributed_table%' AND datname = current_database()
"""
_WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'LOCK TABLE%'"
_EVENTS = 300_000
_FILL = f"""
    INSERT INTO events_event (
        id, user_id, name, timestamp, received_at, experiment, variant, properties, environment_id
    )
    SELECT gen_random_uuid(), number, 'see', now(), now(), '', '', '{{}}', 1
    FROM generate_series(1, {_EVENTS}) AS number
"""
_USERS = 200


@pytest.mark.parametrize("is_pooled", [False, True], ids=["direct", "pooled"])
def test_distribute__under_traffic__loses_and_doubles_nothing(
    citus: CitusCluster, tmp_path: Path, is_pooled: bool
) -> None:
    with ExitStack() as running:
        direct = citus.make_database(f"moving_{is_pooled}".lower())
        url = running.enter_context(pooled(direct)) if is_pooled else direct
        prepared = Server(tmp_path, direct)
        prepared.prepare()
        server = running.enter_context(serving(tmp_path, url, keys=prepared.keys))
        with traffic(server, pause=0.02) as ledger:
            ledger.wait_for_progress()
            prepared.run("manage.py", "distribute")
            for _ in range(3):
                ledger.wait_for_progress()
        assert "Traceback" not in server.log.read_text()
        assert_results_match(server)


def test_distribute__database_restored_from_another_server__counts_everything_once(
    citus: CitusCluster, tmp_path: Path
) -> None:
    """There, transactions had reached other numbers."""
    url = citus.make_database("restored")
    prepared = Server(tmp_path, url)
    prepared.prepare()
    with serving(tmp_path, url, keys=prepared.keys) as server:
        send(server, "before")
    with psycopg.connect(for_psycopg(url)) as connection:
        for table in ("events_event", "experiments_exposure"):
            connection.execute(f"UPDATE {table} SET arrival = arrival + 1000")
        connection.execute("UPDATE experiments_resultstate SET watermark = ''")
    prepared.run("manage.py", "distribute")
    with serving(tmp_path, url, keys=prepared.keys) as server:
        assert size(server) == _USERS
        with psycopg.connect(for_psycopg(url), autocommit=True) as connection:
            for _ in range(1100):
                connection.execute("SELECT pg_current_xact_id()")
        send(server, "after")
        assert size(server) == 2 * _USERS
        assert_results_match(server)


def test_distribute__deadlock_with_another_transaction__waits_for_it(citus: CitusCluster, tmp_path: Path) -> None:
    """As with one that reads an experiment, and then asks whether its exposures are spread."""
    url = citus.make_database("deadlocked")
    server = Server(tmp_path, url)
    server.prepare()
    database = for_psycopg(url)
    with psycopg.connect(database, autocommit=True) as watching, psycopg.connect(database) as other:
        watching.execute("ALTER DATABASE deadlocked SET deadlock_timeout = '2s'")
        other.execute("SET deadlock_timeout = '10min'")  # the command is the one that PostgreSQL ends
        other.execute("SELECT count(*) FROM experiments_experiment")
        process = subprocess.Popen([sys.executable, "manage.py", "distribute"], cwd=server.code, env=server.environment)
        wait_until(lambda: watching.execute(_WAITING).fetchone() == (1,), "the command waits for the tables", 60)
        other.execute(f"SELECT pg_advisory_xact_lock_shared{SPREADING}")
        other.rollback()
        assert process.wait(60) == 0
    with psycopg.connect(database, autocommit=True) as connection:  # the command has ended the others
        assert connection.execute(_PLACED).fetchone() == (4,)


def test_distribute__interrupted__has_changed_nothing_and_can_run_again(citus: CitusCluster, tmp_path: Path) -> None:
    url = citus.make_database("interrupted")
    server = Server(tmp_path, url)
    server.prepare()
    with psycopg.connect(for_psycopg(url), autocommit=True) as connection:
        connection.execute(_FILL)
        command = [sys.executable, "manage.py", "distribute"]
        process = subprocess.Popen(command, cwd=server.code, env=server.environment)
        wait_until(lambda: connection.execute(_COPYING).fetchone() == (1,), "a table is copied", 60)
        process.kill()
        process.wait()
        wait_until(lambda: connection.execute(_COPYING).fetchone() == (0,), "the server has noticed", 60)
        assert connection.execute(_PLACED).fetchone() == (0,)
    server.run("manage.py", "distribute")
    with psycopg.connect(for_psycopg(url), autocommit=True) as connection:
        assert connection.execute(_PLACED).fetchone() == (4,)
        assert connection.execute("SELECT count(DISTINCT id) FROM events_event").fetchone() == (_EVENTS,)


def send(server: Server, prefix: str) -> None:
    """Let users see a variant and buy."""
    if prefix == "before":
        metric = {"key": "bought", "type": "conversion", "event": "buy"}
        server.ask("POST", "/v1/metrics", json=metric).raise_for_status()
        variants = [{"key": key, "weight": 1} for key in ("a", "b")]
        experiment = {"key": "e", "variants": variants, "metrics": ["bought"]}
        server.ask("POST", "/v1/experiments", json=experiment).raise_for_status()
        server.ask("POST", "/v1/experiments/e/start").raise_for_status()
    users = [f"{prefix}-{number}" for number in range(_USERS)]
    shown = [{"event": "see", "userId": user, "properties": {"experimentId": "e", "variant": "a"}} for user in users]
    bought = [{"event": "buy", "userId": user} for user in users]
    for batch in (shown, bought):
        server.ask("POST", "/v1/events/batch", json={"events": batch}).raise_for_status()


def size(server: Server) -> int:
    answer = server.ask("GET", "/v1/experiments/e").json()["data"]["results"]["a"]
    assert answer["conversion"] == 1.0
    return int(answer["sampleSize"])


def assert_results_match(server: Server) -> None:
    checked = server.run("manage.py", "check_results").splitlines()
    assert checked
    assert all("match the events" in line for line in checked)
