"""A PostgreSQL database of a benchmark's own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

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


def measure_in_process(module: str) -> Any:
    """Run a module in a process of its own, with a database that it may fill, and return the JSON that it prints."""
    with fresh_database() as url, tempfile.TemporaryDirectory(prefix="halyard-bench-") as folder:
        environment = {
            "ENV_FILE": "/dev/null",
            "SECRET_KEY": "of-a-database-that-lives-for-one-benchmark-0123456789",
            "DEBUG": "true",
            "DATABASE_URL": url,
            "RUNTIME_DIR": folder,
        }
        done = subprocess.run(
            [sys.executable, "-m", module], env=environment, stdout=subprocess.PIPE, text=True, check=True
        )
    return json.loads(done.stdout)
