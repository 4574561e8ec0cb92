"""What counting for `/metrics` costs an evaluation in the fast lane, in one process on SQLite."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

ROUNDS, TIMES = 400, 100
MOST_MICROSECONDS = 3.0


def run() -> bool:
    print(f"Metrics: an evaluation through the gateway with and without them, {ROUNDS} rounds of {TIMES:,}, SQLite")
    with tempfile.TemporaryDirectory(prefix="halyard-bench-") as name:
        folder = Path(name)
        environment = {
            "ENV_FILE": "/dev/null",
            "SECRET_KEY": "of-a-database-that-lives-for-one-benchmark-0123456789",
            "DEBUG": "true",
            "DATABASE_URL": f"sqlite:///{folder / 'halyard.sqlite3'}",
            "RUNTIME_DIR": str(folder / "runtime"),
        }
        command = [sys.executable, "-m", "tests.benchmarks.monitoring", str(ROUNDS), str(TIMES)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    rounds = json.loads(done.stdout)
    for at, subject in enumerate(("with", "without")):
        times = [times[at] for times in rounds]
        print(f"{subject:10}{median(times):8.2f} µs CPU{min(times):10.2f} - {max(times):.2f}")
    cost = median(counted - bare for counted, bare in rounds)
    holds = cost <= MOST_MICROSECONDS
    print(f"{'holds' if holds else 'FAILS'}: metrics cost at most {MOST_MICROSECONDS} µs: {cost:.2f} µs")
    return holds
