"""Servers of a benchmark's own: each has a folder and a database that are deleted after the block."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.benchmarks.postgresql import fresh_database
from tests.system.server import Server, serving


@contextmanager
def serving_on_postgresql(**options: Any) -> Iterator[Server]:
    with (
        tempfile.TemporaryDirectory(prefix="halyard-bench-") as folder,
        fresh_database() as database,
        serving(Path(folder), database, **options) as server,
    ):
        yield server


@contextmanager
def serving_on_sqlite(**options: Any) -> Iterator[Server]:
    with (
        tempfile.TemporaryDirectory(prefix="halyard-bench-") as folder,
        serving(Path(folder), f"sqlite:///{folder}/halyard.sqlite3", **options) as server,
    ):
        yield server
