"""A server on Citus under traffic of every kind, while a worker of the cluster crashes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.citus.cluster import CitusCluster, own_citus
from tests.system.server import Server, serving
from tests.system.traffic import traffic

pytestmark = pytest.mark.citus


@pytest.fixture(scope="module")
def citus() -> Iterator[CitusCluster]:
    with own_citus() as cluster:
        yield cluster


@pytest.fixture
def server(citus: CitusCluster, tmp_path: Path) -> Iterator[Server]:
    url = citus.make_database("served")
    prepared = Server(tmp_path, url)
    prepared.prepare()
    prepared.run("manage.py", "distribute")
    with serving(tmp_path, url, keys=prepared.keys) as running:
        yield running


def test_server__worker_of_the_cluster_crashes__loses_and_doubles_nothing(citus: CitusCluster, server: Server) -> None:
    with traffic(server, pause=0.02) as ledger:
        ledger.wait_for_progress()
        for worker in citus.workers:
            worker.stop("immediate")
            worker.start()
            ledger.wait_for_progress()
    checked = server.run("manage.py", "check_results").splitlines()
    assert len(checked) == 2
    assert all("match the events" in line for line in checked)
