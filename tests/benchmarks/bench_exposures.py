"""Batches of exposures that clients report, against batches of other events, over HTTP: of new users, which store two
rows each, and of users who were exposed before, which store one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from statistics import median
from typing import Any, NamedTuple

from tests.benchmarks.batch_clients import (
    A_BATCH,
    EXPERIMENT,
    EXPOSED,
    Stretch,
    draw_events,
    draw_exposures,
    draw_repeated_exposures,
    exposure_of,
    send_by_http,
    send_together,
    start_experiment,
)
from tests.benchmarks.servers import serving_on_postgresql
from tests.benchmarks.tables import print_bars
from tests.system.server import Server

WORKERS, CLIENTS, ROUNDS, BATCHES_A_ROUND = 2, 4, 5, 80
LEAST_RATIO = 1.0

EVENTS = "events"


class Kind(NamedTuple):
    """What clients send in a stretch, and the scope of their keys."""

    draw: Callable[[Random], list[dict[str, Any]]]
    scope: str
    are_new: bool = False


KINDS: Mapping[str, Kind] = {
    EVENTS: Kind(draw_events, "client"),
    "first exposures, client key": Kind(draw_exposures, "client", are_new=True),
    "first exposures, server key": Kind(draw_exposures, "server", are_new=True),
    "repeated exposures, client key": Kind(draw_repeated_exposures, "client"),
    "repeated exposures, server key": Kind(draw_repeated_exposures, "server"),
}


def run() -> bool:
    print(
        f"Exposures in batches of {A_BATCH}: {WORKERS} workers, {CLIENTS} clients, {ROUNDS} rounds of "
        f"{BATCHES_A_ROUND * A_BATCH:,} events and as many exposures of each kind, PostgreSQL"
    )
    with serving_on_postgresql(workers=WORKERS) as server:
        start_experiment(server)
        expose(server)
        measure(server)  # not recorded: a warm-up
        rounds = [measure(server) for _ in range(ROUNDS)]
        return report(rounds) & are_all_exposed(server)


def expose(server: Server) -> None:
    """Expose the users who will be reported again."""
    for start in range(0, len(EXPOSED), A_BATCH):
        events = [exposure_of(user_id) for user_id in EXPOSED[start : start + A_BATCH]]
        server.ask("POST", "/v1/events/batch", json={"events": events}).raise_for_status()


def measure(server: Server) -> dict[str, Stretch]:
    return {name: send(server, kind) for name, kind in KINDS.items()}


def send(server: Server, kind: Kind) -> Stretch:
    arguments = (server.port, server.headers(kind.scope), BATCHES_A_ROUND // CLIENTS, kind.draw)
    return send_together(send_by_http, [arguments] * CLIENTS, server.pids())


def report(rounds: Sequence[Mapping[str, Stretch]]) -> bool:
    number = BATCHES_A_ROUND * A_BATCH
    print(f"{'':32}{'a second':>12}{'CPU µs each':>14}{'of it the server':>18}")
    bars = {}
    for name in KINDS:
        seconds, machine, server = (median(stretches[name][at] for stretches in rounds) for at in range(3))
        print(f"{name:32}{number / seconds:12,.0f}{machine / number * 1e6:14.1f}{server / number * 1e6:18.1f}")
        if name != EVENTS:
            ratio = median(stretches[EVENTS].seconds / stretches[name].seconds for stretches in rounds)
            bars[f"{name}: at least {LEAST_RATIO} of the rate of events: {ratio:.2f}"] = ratio >= LEAST_RATIO
    return print_bars(bars)


def are_all_exposed(server: Server) -> bool:
    results = server.ask("GET", f"/v1/experiments/{EXPERIMENT}").json()["data"]["results"]
    new = sum(kind.are_new for kind in KINDS.values()) * (ROUNDS + 1) * BATCHES_A_ROUND * A_BATCH
    counted = sum(result["sampleSize"] for result in results.values())
    return print_bars({f"every exposure counts: {counted:,} users": counted >= len(EXPOSED) + new})
