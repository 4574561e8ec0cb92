"""Following one change, against building the snapshot of 5,000 flags again, in one process on SQLite."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

FLAGS = 5_000
LEAST_FACTOR = 50


def run() -> bool:
    print(f"Snapshot: applying one change against building it, {FLAGS:,} flags in two environments, SQLite")
    with tempfile.TemporaryDirectory(prefix="halyard-bench-") as name:
        folder = Path(name)
        environment = {
            "ENV_FILE": "/dev/null",
            "SECRET_KEY": "of-a-database-that-lives-for-one-benchmark-0123456789",
            "DEBUG": "true",
            "DATABASE_URL": f"sqlite:///{folder / 'halyard.sqlite3'}",
            "RUNTIME_DIR": str(folder / "runtime"),
        }
        command = [sys.executable, "-m", "tests.benchmarks.snapshot", str(FLAGS)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    build, change = map(float, done.stdout.split())
    print(f"building {build * 1e3:,.1f} ms CPU, one change {change * 1e3:,.2f} ms CPU (medians)")
    factor = build / change
    holds = factor >= LEAST_FACTOR
    print(f"{'holds' if holds else 'FAILS'}: one change at most 1/{LEAST_FACTOR} of building: 1/{factor:.0f}")
    return holds
