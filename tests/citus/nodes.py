"""Databases on a coordinator of Citus and on its workers, which belong together by their name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol

import psycopg
from psycopg.sql import SQL, Identifier


class HasPort(Protocol):
    @property
    def port(self) -> int: ...


class Node(NamedTuple):
    host: str
    port: int


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
