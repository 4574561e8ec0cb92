"""What a worker has prepared for a commit that failed does not keep others waiting for long."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from tests.citus.cluster import CitusCluster, own_citus
from tests.system.databases import for_psycopg
from tests.system.server import Server, serving, wait_until

pytestmark = pytest.mark.citus

_WHERE = """
    SELECT nodeport, shard_name FROM citus_shards
    WHERE table_name = 'events_event'::regclass
    AND shardid = get_shard_id_for_distribution_column('events_event', %s::text)
"""
_INSERT = """
    INSERT INTO {} (id, user_id, name, timestamp, received_at, experiment, variant, properties, environment_id)
    VALUES (%s, %s, 'see', now(), now(), '', '', '{{}}', 1)
"""


@pytest.fixture(scope="module")
def citus() -> Iterator[CitusCluster]:
    """One that does not recover by itself while the test runs."""
    with own_citus(**{"citus.recover_2pc_interval": "1h"}) as cluster:
        yield cluster


def prepare(cluster: CitusCluster, url: str, event: str, user: str) -> None:
    """Leave an event behind as a coordinator does that has lost its worker in the middle of a commit."""
    with psycopg.connect(for_psycopg(url)) as coordinator:
        [[port, shard]] = coordinator.execute(_WHERE, [user]).fetchall()
    worker = next(worker for worker in cluster.workers if worker.port == port)
    address = worker.url.rpartition("/")[0] + url[url.rindex("/") :]
    with psycopg.connect(for_psycopg(address), autocommit=True) as connection:
        connection.execute("BEGIN")
        connection.execute("SET citus.enable_ddl_propagation TO off")
        connection.execute(_INSERT.format(shard), [event, user])
        connection.execute("PREPARE TRANSACTION 'citus_0_1_1_0'")


def test_events__prepared_by_a_commit_that_failed__are_recorded_when_they_are_sent_again(
    citus: CitusCluster, tmp_path: Path
) -> None:
    url = citus.make_database("served")
    prepared = Server(tmp_path, url, DATABASE_TIMEOUT="2")
    prepared.prepare()
    prepared.run("manage.py", "distribute")
    event = {"id": str(uuid4()), "event": "see", "userId": "ada"}
    with serving(tmp_path, url, keys=prepared.keys, DATABASE_TIMEOUT="2") as server:
        server.ask("POST", "/v1/events", json={"event": "see", "userId": "eve"}).raise_for_status()
        prepare(citus, url, event["id"], "ada")
        answers: list[int] = []

        def is_recorded() -> bool:
            answers.append(server.ask("POST", "/v1/events/batch", json={"events": [event]}).status_code)
            return answers[-1] == 202

        wait_until(is_recorded, "the event is recorded", 30)
        assert answers == [503, 202]
        found = server.ask("GET", "/v1/events", params={"userId": "ada"}).json()["data"]
        assert [each["id"] for each in found] == [event["id"]]
