"""Servers for tests with real processes: one for the tests of a module, and a factory for tests
that end theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.system.cluster import Cluster, own_cluster, own_folder
from tests.system.databases import fresh_database
from tests.system.server import Keys, Server, keys_of_databases, serving

_LONG = ("test_accessible.py", "test_freshness.py", "test_faults.py", "test_conformance.py")
"""These start first, so that no worker runs one of them alone at the end."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.name not in _LONG)


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Keys]]:
    """A database that is migrated and has keys, for others to be copied from: migrating each would
    take longer.
    """
    folder = tmp_path_factory.mktemp("prepared")
    with fresh_database(folder) as url:
        server = Server(folder, url)
        server.prepare()
        yield url, server.keys


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory, prepared: tuple[str, Keys]) -> Iterator[tuple[str, Keys]]:
    """The same with a small demo."""
    folder = tmp_path_factory.mktemp("demo")
    template, keys = prepared
    with fresh_database(folder, template) as url:
        Server(folder, url).run("manage.py", "demo", "--users", "10", "--events", "80", "--days", "1")
        yield url, keys


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, prepared: tuple[str, Keys]) -> Iterator[Server]:
    """A running server with two workers, shared by the tests of a module: let each use keys and
    users of its own.
    """
    folder = tmp_path_factory.mktemp("server")
    template, keys = prepared
    with fresh_database(folder, template) as url, serving(folder, url, keys=keys) as running:
        yield running


@pytest.fixture
def start_server(
    tmp_path_factory: pytest.TempPathFactory, prepared: tuple[str, Keys]
) -> Iterator[Callable[..., Server]]:
    """Start a server of a test's own, on a fresh database or on the one given."""
    with ExitStack() as running:

        def start(database_url: str | None = None, **options: Any) -> Server:
            folder: Path = tmp_path_factory.mktemp("server")
            if database_url is not None:
                return running.enter_context(serving(folder, database_url, **options))
            template, keys = prepared
            url = running.enter_context(fresh_database(folder, template))
            return running.enter_context(serving(folder, url, keys=keys, **options))

        yield start


@pytest.fixture(scope="session")
def prepared_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Keys]]:
    """The files of a PostgreSQL cluster whose database is migrated and has keys, for others to be copied from."""
    with own_folder() as folder:
        cluster = Cluster(folder)
        cluster.make()
        cluster.start()
        server = Server(tmp_path_factory.mktemp("prepared"), cluster.url)
        try:
            server.prepare()
        finally:
            cluster.stop("fast")
        yield cluster.data, server.keys


@pytest.fixture(scope="module")
def shared_cluster(prepared_cluster: tuple[Path, Keys]) -> Iterator[Cluster]:
    """A PostgreSQL cluster for the tests of a module, prepared for servers."""
    files, keys = prepared_cluster
    with own_cluster(files=files) as running:
        keys_of_databases[running.url] = keys
        yield running


@pytest.fixture
def cluster(prepared_cluster: tuple[Path, Keys]) -> Iterator[Cluster]:
    """A PostgreSQL cluster of a test's own, prepared for servers."""
    files, keys = prepared_cluster
    with own_cluster(files=files) as running:
        keys_of_databases[running.url] = keys
        yield running
