"""The audit of the assignments of a million users beside reading their exposures, on PostgreSQL."""

from __future__ import annotations

from tests.benchmarks.audit import ROUNDS, USERS
from tests.benchmarks.in_process import measure_on_postgresql
from tests.benchmarks.tables import print_bars

MOST_TIMES = 3


def run() -> bool:
    print(f"Audit: {USERS:,} exposures, PostgreSQL; medians of {ROUNDS} by turns")
    taken: dict[str, dict[str, float]] = measure_on_postgresql("tests.benchmarks.audit")
    print(f"{'':12}{'reading s':>12}{'auditing s':>12}{'times':>8}")
    bars = {}
    for key, seconds in taken.items():
        times = seconds["auditing"] / seconds["reading"]
        print(f"{key:12}{seconds['reading']:12.2f}{seconds['auditing']:12.2f}{times:8.2f}")
        bars[f"{key}: auditing at most {MOST_TIMES} times reading: {times:.2f}"] = times <= MOST_TIMES
    return print_bars(bars)
