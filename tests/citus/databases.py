"""Tests on Citus: a database of tests is made on the coordinator and on each worker, and distributed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from io import StringIO
from typing import Any, NamedTuple, Protocol

import psycopg
import pytest
from django.core.management import call_command
from django.db import connection
from django.db.backends.postgresql.creation import DatabaseCreation
from psycopg.sql import SQL, Identifier

from config.database.postgresql.base import DatabaseWrapper
from config.distribution import plan

_SHARDS = 4
"""Each statement on all users is sent to every part of a table, so that fewer parts make quicker tests."""


class HasPort(Protocol):
    @property
    def port(self) -> int: ...


class Node(NamedTuple):
    host: str
    port: int


def is_distributed() -> bool:
    """Return whether this run is for Citus, as `python -m tests --citus` says."""
    return os.environ.get("TEST_DISTRIBUTED") == "true"


def pytest_configure(config: pytest.Config) -> None:
    if is_distributed():
        DatabaseWrapper.creation_class = DistributedCreation
        connection.creation = DistributedCreation(connection)  # which was made before
        plan.SHARDS = _SHARDS


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests of what the other kind of database does."""
    left_out = "one_server" if is_distributed() else "distributed"
    deselected = [item for item in items if item.get_closest_marker(left_out)]
    if deselected:
        config.hook.pytest_deselected(items=deselected)
        items[:] = [item for item in items if not item.get_closest_marker(left_out)]


def make_distributed(url: str, name: str) -> None:
    """Make a database of this name on the coordinator that the URL names and on its workers, and connect these.

    The workers are those of the database that the URL names.
    """
    nodes = _nodes(url)
    for node in nodes:
        drop(url, name, [node])
        with _connect(url, node) as there:
            there.execute(SQL("CREATE DATABASE {}").format(Identifier(name)))
    connect_nodes(url, name, nodes[1:])


def connect_nodes(url: str, name: str, workers: Iterable[HasPort]) -> None:
    """Make the databases of this name those of a coordinator and its workers, all on this machine or named hosts."""
    with psycopg.connect(url) as maintenance:
        coordinator = Node(maintenance.info.host, maintenance.info.port)
    others = [Node(getattr(worker, "host", coordinator.host), worker.port) for worker in workers]
    for node in (coordinator, *others):
        with _connect(url, node, name) as there:
            there.execute("CREATE EXTENSION citus")
    with _connect(url, coordinator, name) as there:
        there.execute("SELECT citus_set_coordinator_host(%s, %s)", coordinator)
        for node in others:
            there.execute("SELECT citus_add_node(%s, %s)", node)


def drop(url: str, name: str, nodes: Sequence[Node] = ()) -> None:
    """Drop the database of this name on these nodes, or on the coordinator that the URL names and its workers."""
    for node in nodes or _nodes(url):
        with _connect(url, node) as there:
            there.execute("SET client_min_messages = error")
            there.execute(SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(Identifier(name)))


def _nodes(url: str) -> list[Node]:
    """Return the coordinator that the URL names, and its workers."""
    with psycopg.connect(url, autocommit=True) as maintenance:
        rows = maintenance.execute("SELECT nodename, nodeport FROM pg_dist_node WHERE groupid > 0 ORDER BY 1, 2")
        return [Node(maintenance.info.host, maintenance.info.port), *(Node(*row) for row in rows)]


def _connect(url: str, node: Node, name: str | None = None) -> psycopg.Connection[Any]:
    other = {} if name is None else {"dbname": name}
    return psycopg.connect(url, host=node.host, port=node.port, autocommit=True, **other)


class DistributedCreation(DatabaseCreation):
    """Django's tests make their database with this."""

    def _create_test_db(self, verbosity: int, autoclobber: bool, keepdb: bool = False) -> str:
        name: str = self._get_test_db_name()
        make_distributed(self._maintenance_url(), name)
        return name

    def create_test_db(self, *arguments: Any, **options: Any) -> str:
        name: str = super().create_test_db(*arguments, **options)
        call_command("distribute", stdout=StringIO(), stderr=StringIO())
        self.connection.close()
        return name

    def _destroy_test_db(self, test_database_name: str, verbosity: int) -> None:
        drop(self._maintenance_url(), test_database_name)

    def _maintenance_url(self) -> str:
        own = self.connection.settings_dict
        return psycopg.conninfo.make_conninfo(
            host=own["HOST"], port=own["PORT"], user=own["USER"], password=own["PASSWORD"] or None, dbname="postgres"
        )
