"""A PostgreSQL database of a benchmark's own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import psycopg

from tests.benchmarks.load import MissingTool
from tests.system.databases import fresh_postgresql

_HERE = "postgres://postgres@127.0.0.1:5432/postgres"


@contextmanager
def fresh_database() -> Iterator[str]:
    """The DATABASE_URL of an empty database, on the server that DATABASE_URL names or on this machine."""
    url = os.environ.get("DATABASE_URL", "")
    with ExitStack() as stack:
        try:
            fresh = stack.enter_context(fresh_postgresql(url if url.startswith("postgres") else _HERE))
        except psycopg.OperationalError as error:
            message = "This benchmark needs a PostgreSQL server, on this machine or as DATABASE_URL says"
            raise MissingTool(f"{message}: {error}") from error
        yield fresh
