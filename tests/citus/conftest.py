"""A cluster of Citus for the tests of a file, and a server on a database of it that is distributed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.citus.cluster import CitusCluster, own_citus
from tests.system.server import Server, serving


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
