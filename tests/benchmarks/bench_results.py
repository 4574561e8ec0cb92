"""Results of a million users and ten million events: from totals, from scratch, and with new events, on PostgreSQL."""

from __future__ import annotations

from tests.benchmarks.in_process import measure_on_postgresql
from tests.benchmarks.results import EVENTS, EVENTS_A_USER, METRICS, NEW_EVENTS, ROUNDS, USERS
from tests.benchmarks.tables import print_bars

LEAST_GAIN, LEAST_GAIN_OF_NEW, LEAST_GAIN_OF_MANY, LEAST_GAIN_FROM_SCRATCH = 400, 40, 25, 5
"""All against the queries that one writes first with the ORM."""


def run() -> bool:
    print(
        f"Results: {len(METRICS)} metrics x 3 variants, {USERS:,} users, {EVENTS:,} events, PostgreSQL; "
        f"medians of {ROUNDS} where it does not say once"
    )
    taken: dict[str, float] = measure_on_postgresql("tests.benchmarks.results")
    naive, scratch, totals = taken["naive"], taken["from scratch"], taken["from totals"]
    new, of_many = taken["new events of few users"], taken["new events each of another user"]
    rows = {
        "filling the tables, once": taken["filling"],
        "writing all totals, once, just after that": taken["first fold"],
        "a subquery for each user and metric, by the ORM, once": naive,
        "sums from scratch, in one pass over all events": scratch,
        "results from the totals": totals,
        f"folding {NEW_EVENTS:,} new events, {EVENTS_A_USER} of each user": new,
        f"folding {NEW_EVENTS:,} more, each of another user, once": of_many,
    }
    for name, seconds in rows.items():
        print(f"{name:60}{seconds:10.2f} s")
    return print_bars(
        {
            f"from the totals at most 1/{LEAST_GAIN} of a subquery a user: 1/{naive / totals:.0f}": totals
            <= naive / LEAST_GAIN,
            f"from scratch at most 1/{LEAST_GAIN_FROM_SCRATCH} of a subquery a user: 1/{naive / scratch:.2f}": scratch
            <= naive / LEAST_GAIN_FROM_SCRATCH,
            f"folding new events at most 1/{LEAST_GAIN_OF_NEW} of a subquery a user: 1/{naive / new:.1f}": new
            <= naive / LEAST_GAIN_OF_NEW,
            f"folding those of as many users at most 1/{LEAST_GAIN_OF_MANY} of it: 1/{naive / of_many:.1f}": of_many
            <= naive / LEAST_GAIN_OF_MANY,
        }
    )
