"""Results of a million users and ten million events: with nothing new, refreshed, and from scratch, on PostgreSQL."""

from __future__ import annotations

from tests.benchmarks.in_process import measure_on_postgresql
from tests.benchmarks.results import BUSY_EVENTS, EVENTS, METRICS, NEW_EVENTS, ROUNDS, USERS
from tests.benchmarks.tables import print_bars

MIN_GAIN, MAX_OF_TWO_LEVELS = 400, 1.1
MAX_OF_ONE, MAX_OF_THOUSAND = 0.5, 2
"""A refresh as a share of results with nothing new: after one event, and of events of a thousand users."""


def run() -> bool:
    print(
        f"Results: {len(METRICS)} metrics x 3 variants, {USERS:,} users, {EVENTS:,} events, PostgreSQL; "
        f"medians of {ROUNDS} where it does not say once"
    )
    taken: dict[str, float] = measure_on_postgresql("tests.benchmarks.results")
    naive, two_levels, everything = taken["naive"], taken["two levels"], taken["everything"]
    nothing_new, one, thousand = taken["nothing new"], taken["refresh of 1"], taken["refresh of 1000"]
    many = taken[f"refresh of {NEW_EVENTS}"]
    busy, other = taken["one more of a busy user"], taken["one more of another user"]
    rows = {
        "filling the tables, once": taken["filling"],
        "a subquery for each user and metric, by the ORM, once": naive,
        "two levels, by the ORM, for each metric and variant": taken["two levels in parallel"],
        "the same by one process": two_levels,
        "everything computed from events and stored by one process": everything,
        "results with nothing new": nothing_new,
        "refreshing after one event": one,
        "refreshing after events of 1,000 users": thousand,
        f"refreshing after events of {NEW_EVENTS:,} users, once": many,
        f"refreshing after {BUSY_EVENTS:,} events of one user, once": taken["million events"],
        "refreshing after one more of that user": busy,
        "refreshing after one event of another user": other,
    }
    for name, seconds in rows.items():
        print(f"{name:60}{seconds:10.3f} s")
    print(f"one more event of the busy user takes {busy / other:.1f} times one of another user")
    return print_bars(
        {
            f"nothing new at most 1/{MIN_GAIN} of a subquery a user: 1/{naive / nothing_new:.0f}": nothing_new
            <= naive / MIN_GAIN,
            f"everything at most {MAX_OF_TWO_LEVELS} of two levels: {everything / two_levels:.2f}": everything
            <= two_levels * MAX_OF_TWO_LEVELS,
            f"one event at most {MAX_OF_ONE} of nothing new: {one / nothing_new:.2f}": one <= nothing_new * MAX_OF_ONE,
            f"1,000 users at most {MAX_OF_THOUSAND} of nothing new: {thousand / nothing_new:.2f}": thousand
            <= nothing_new * MAX_OF_THOUSAND,
            f"{NEW_EVENTS:,} users at most everything: {many / everything:.2f}": many <= everything,
        }
    )
