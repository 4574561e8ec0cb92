"""Measuring in a process of its own, whose database it may fill, and the clocks that such a process reads."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

from tests.benchmarks.postgresql import fresh_database


def measure_on_postgresql(module: str) -> Any:
    """Run a module in a process of its own, with an empty database, and return the JSON that it prints."""
    with fresh_database() as url, tempfile.TemporaryDirectory(prefix="halyard-bench-") as folder:
        return _run(url, folder, module)


def measure_on_sqlite(module: str, *arguments: int) -> Any:
    """Run a module in a process of its own, with an empty database, and return the JSON that it prints."""
    with tempfile.TemporaryDirectory(prefix="halyard-bench-") as folder:
        return _run(f"sqlite:///{Path(folder) / 'halyard.sqlite3'}", folder, module, *arguments)


def _run(database_url: str, folder: str, module: str, *arguments: int) -> Any:
    environment = {
        "ENV_FILE": "/dev/null",
        "SECRET_KEY": "of-a-database-that-lives-for-one-benchmark-0123456789",
        "DEBUG": "true",
        "DATABASE_URL": database_url,
        "RUNTIME_DIR": folder,
    }
    command = [sys.executable, "-m", module, *map(str, arguments)]
    return json.loads(subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout)


def seconds_of(act: Callable[[], object]) -> float:
    started = perf_counter()
    act()
    return perf_counter() - started


def cpu_seconds_of(act: Callable[[], object]) -> float:
    started = process_time()
    act()
    return process_time() - started
