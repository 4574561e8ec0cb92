"""A coordinator of Citus and two workers of a test's own, which it may stop and crash."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from tests.citus.nodes import connect_nodes, make_distributed
from tests.system.cluster import Cluster, own_cluster
from tests.system.databases import for_psycopg

_SETTINGS = {
    "shared_preload_libraries": "citus",
    "max_prepared_transactions": "300",
    "citus.node_conninfo": "sslmode=disable",
}


@dataclass(frozen=True, slots=True)
class CitusCluster:
    """Its databases are made with `make_distributed`."""

    coordinator: Cluster
    workers: list[Cluster]

    def make_database(self, name: str) -> str:
        """Make an empty database whose tables can be distributed, and return its DATABASE_URL."""
        make_distributed(for_psycopg(self.coordinator.url), name)
        return self.coordinator.url.rpartition("/")[0] + f"/{name}"


@contextmanager
def own_citus(workers: int = 2, **settings: str) -> Iterator[CitusCluster]:
    """A cluster that runs until the end of the block. Its servers have these settings, too."""
    with ExitStack() as running:
        of_all = {**_SETTINGS, **settings}
        coordinator, *others = (running.enter_context(own_cluster(**of_all)) for _ in range(workers + 1))
        connect_nodes(for_psycopg(coordinator.url), "postgres", others)
        yield CitusCluster(coordinator, others)
