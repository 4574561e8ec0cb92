"""What counting for `/metrics` costs an evaluation in the fast lane, in one process on SQLite."""

from __future__ import annotations

from statistics import median

from tests.benchmarks.in_process import measure_on_sqlite

ROUNDS, TIMES = 400, 100
MOST_MICROSECONDS = 3.0


def run() -> bool:
    print(f"Metrics: an evaluation through the gateway with and without them, {ROUNDS} rounds of {TIMES:,}, SQLite")
    rounds = measure_on_sqlite("tests.benchmarks.monitoring", ROUNDS, TIMES)
    for at, subject in enumerate(("with", "without")):
        times = [times[at] for times in rounds]
        print(f"{subject:10}{median(times):8.2f} µs CPU{min(times):10.2f} - {max(times):.2f}")
    cost = median(counted - bare for counted, bare in rounds)
    holds = cost <= MOST_MICROSECONDS
    print(f"{'holds' if holds else 'FAILS'}: metrics cost at most {MOST_MICROSECONDS} µs: {cost:.2f} µs")
    return holds
