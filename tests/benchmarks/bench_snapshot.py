"""Following one change, against building the snapshot of 5,000 flags again, in one process on SQLite."""

from __future__ import annotations

from tests.benchmarks.in_process import measure_on_sqlite

FLAGS = 5_000
LEAST_FACTOR = 50


def run() -> bool:
    print(f"Snapshot: applying one change against building it, {FLAGS:,} flags in two environments, SQLite")
    build, change = measure_on_sqlite("tests.benchmarks.snapshot", FLAGS)
    print(f"building {build * 1e3:,.1f} ms CPU, one change {change * 1e3:,.2f} ms CPU (medians)")
    factor = build / change
    holds = factor >= LEAST_FACTOR
    print(f"{'holds' if holds else 'FAILS'}: one change at most 1/{LEAST_FACTOR} of building: 1/{factor:.0f}")
    return holds
