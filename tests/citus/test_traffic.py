"""A server on Citus under traffic of every kind, while a worker of the cluster crashes."""

from __future__ import annotations

import pytest

from tests.citus.cluster import CitusCluster
from tests.system.server import Server
from tests.system.traffic import traffic

pytestmark = pytest.mark.citus


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
