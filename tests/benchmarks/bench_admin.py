"""Pages of the admin with 5,000 flags, a million events and three running experiments, in milliseconds."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from tests.benchmarks.admin import EVENTS, EXPERIMENTS, FLAGS, ROUNDS
from tests.benchmarks.postgresql import fresh_database
from tests.benchmarks.tables import print_bars

MOST_OF_PAGES, MOST_OF_RESULTS = 150, 400


def run() -> bool:
    print(
        f"Admin: {FLAGS:,} flags, {EVENTS:,} events, {len(EXPERIMENTS)} running experiments; medians of {ROUNDS} pages"
    )
    held = [measure(name) for name in ("SQLite", "PostgreSQL")]
    return all(held)


def measure(database: str) -> bool:
    with tempfile.TemporaryDirectory(prefix="halyard-bench-") as name:
        folder = Path(name)
        url: AbstractContextManager[str] = nullcontext(f"sqlite:///{folder / 'halyard.sqlite3'}")
        with fresh_database() if database == "PostgreSQL" else url as database_url:
            environment = {
                "ENV_FILE": "/dev/null",
                "SECRET_KEY": "of-a-database-that-lives-for-one-benchmark-0123456789",
                "ALLOWED_HOSTS": "localhost",
                "SECURE_SSL_REDIRECT": "false",
                "DATABASE_URL": database_url,
                "RUNTIME_DIR": str(folder),
            }
            command = [sys.executable, "-m", "tests.benchmarks.admin"]
            done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return report(database, json.loads(done.stdout))


def report(database: str, pages: dict[str, dict[str, float]]) -> bool:
    print(f"{database:45}{'ms':>8}{'KiB':>8}{'statements':>12}")
    for name, page in pages.items():
        print(f"{name:45}{page['milliseconds']:8.0f}{page['kib']:8.0f}{page['queries']:12.0f}")
    results = [page["milliseconds"] for name, page in pages.items() if name.startswith("results")]
    others = [page["milliseconds"] for name, page in pages.items() if not name.startswith("results")]
    return print_bars(
        {
            f"results under {MOST_OF_RESULTS} ms on {database}": max(results) < MOST_OF_RESULTS,
            f"other pages under {MOST_OF_PAGES} ms on {database}": max(others) < MOST_OF_PAGES,
        }
    )
