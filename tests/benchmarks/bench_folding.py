"""New events of users who are in many experiments: folding them into all results, against recording them."""

from __future__ import annotations

from statistics import median

from tests.benchmarks.folding import EXPERIMENTS, NEW_EVENTS, ROUNDS, USERS
from tests.benchmarks.in_process import measure_on_postgresql
from tests.benchmarks.tables import print_bars

MOST_RATIO = 5


def run() -> bool:
    print(
        f"Folding {NEW_EVENTS:,} events of as many users, who are in {EXPERIMENTS} experiments of {USERS:,} users, "
        f"against recording them in batches, {ROUNDS} rounds, PostgreSQL"
    )
    _, *rounds = measure_on_postgresql("tests.benchmarks.folding")
    for name in ("recording", "folding"):
        seconds = [taken[name] for taken in rounds]
        print(f"{name:12}{median(seconds):8.2f} s{min(seconds):10.2f} - {max(seconds):.2f}")
    ratio = median(taken["folding"] / taken["recording"] for taken in rounds)
    return print_bars({f"folding at most {MOST_RATIO} times as long as recording: {ratio:.1f}": ratio <= MOST_RATIO})
