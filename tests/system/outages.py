"""What a database may do to those who depend on it, for as long as a block lasts."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

from tests.system.cluster import Cluster


@contextmanager
def refusing(cluster: Cluster) -> Iterator[None]:
    cluster.stop("immediate")
    yield
    cluster.start()


@contextmanager
def frozen(cluster: Cluster) -> Iterator[None]:
    """Every process of PostgreSQL stands still: connections open, and nothing answers."""
    cluster.signal(signal.SIGSTOP)
    yield
    cluster.signal(signal.SIGCONT)


@contextmanager
def locked(cluster: Cluster) -> Iterator[None]:
    """Nobody can read the change log, or an exposure."""
    with _locked(cluster, "config_change, experiments_exposure"):
        yield


@contextmanager
def locked_for_recording(cluster: Cluster) -> Iterator[None]:
    """Nobody can record anything."""
    with _locked(cluster, "events_event, experiments_exposure"):
        yield


@contextmanager
def _locked(cluster: Cluster, tables: str) -> Iterator[None]:
    with cluster.connect() as administrator, administrator.transaction():
        administrator.execute(f"LOCK TABLE {tables}")
        yield


@contextmanager
def read_only(cluster: Cluster) -> Iterator[None]:
    """As a standby is that was not promoted yet."""
    with cluster.connect() as administrator:
        for value in ("on", "off"):
            administrator.execute(f"ALTER SYSTEM SET default_transaction_read_only = {value}")
            administrator.execute("SELECT pg_reload_conf()")
            if value == "on":
                yield
