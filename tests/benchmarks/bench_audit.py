"""The audit of the assignments of a million users beside reading their exposures, on PostgreSQL."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile

from tests.benchmarks.audit import ROUNDS, USERS
from tests.benchmarks.postgresql import fresh_database
from tests.benchmarks.tables import print_bars

MOST_TIMES = 3


def run() -> bool:
    print(f"Audit: {USERS:,} exposures, PostgreSQL; medians of {ROUNDS} by turns")
    taken = measure()
    print(f"{'':12}{'reading s':>12}{'auditing s':>12}{'times':>8}")
    bars = {}
    for key, seconds in taken.items():
        times = seconds["auditing"] / seconds["reading"]
        print(f"{key:12}{seconds['reading']:12.2f}{seconds['auditing']:12.2f}{times:8.2f}")
        bars[f"{key}: auditing at most {MOST_TIMES} times reading: {times:.2f}"] = times <= MOST_TIMES
    return print_bars(bars)


def measure() -> dict[str, dict[str, float]]:
    """The seconds that each thing takes, by experiment."""
    with fresh_database() as url, tempfile.TemporaryDirectory(prefix="halyard-bench-") as folder:
        environment = {
            "ENV_FILE": "/dev/null",
            "SECRET_KEY": "of-a-database-that-lives-for-one-benchmark-0123456789",
            "DEBUG": "true",
            "DATABASE_URL": url,
            "RUNTIME_DIR": folder,
        }
        command = [sys.executable, "-m", "tests.benchmarks.audit"]
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    taken: dict[str, dict[str, float]] = json.loads(done.stdout)
    return taken
