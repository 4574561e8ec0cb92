"""Batches of exposures that clients report, each of a new user, against batches of other events, over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from statistics import median
from typing import Any

from tests.benchmarks.batch_clients import (
    A_BATCH,
    EXPERIMENT,
    Stretch,
    draw_events,
    draw_exposures,
    send_by_http,
    send_together,
    start_experiment,
)
from tests.benchmarks.servers import serving_on_postgresql
from tests.benchmarks.tables import print_bars
from tests.system.server import Server

WORKERS, CLIENTS, ROUNDS, BATCHES_A_ROUND = 2, 4, 5, 80
LEAST_RATIO = 1.0


def run() -> bool:
    print(
        f"Exposures in batches of {A_BATCH}: {WORKERS} workers, {CLIENTS} clients, {ROUNDS} rounds of "
        f"{BATCHES_A_ROUND * A_BATCH:,} events and as many exposures, PostgreSQL"
    )
    with serving_on_postgresql(workers=WORKERS) as server:
        start_experiment(server)
        measure(server)  # not recorded: a warm-up
        rounds = [measure(server) for _ in range(ROUNDS)]
        return report(rounds) & are_all_exposed(server)


def measure(server: Server) -> tuple[Stretch, Stretch]:
    return send(server, draw_events), send(server, draw_exposures)


def send(server: Server, draw: Callable[[Random], list[dict[str, Any]]]) -> Stretch:
    arguments = (server.port, server.headers("client"), BATCHES_A_ROUND // CLIENTS, draw)
    return send_together(send_by_http, [arguments] * CLIENTS, server.pids())


def report(rounds: list[tuple[Stretch, Stretch]]) -> bool:
    number = BATCHES_A_ROUND * A_BATCH
    print(f"{'':10}{'a second':>12}{'CPU µs each':>14}{'of it the server':>18}")
    for name, stretches in zip(("events", "exposures"), zip(*rounds, strict=True), strict=True):
        seconds, machine, server = (median(stretch[at] for stretch in stretches) for at in range(3))
        print(f"{name:10}{number / seconds:12,.0f}{machine / number * 1e6:14.1f}{server / number * 1e6:18.1f}")
    ratio = median(events.seconds / exposures.seconds for events, exposures in rounds)
    return print_bars({f"exposures at least {LEAST_RATIO} of the rate of events: {ratio:.2f}": ratio >= LEAST_RATIO})


def are_all_exposed(server: Server) -> bool:
    results = server.ask("GET", f"/v1/experiments/{EXPERIMENT}").json()["data"]["results"]
    reported = (ROUNDS + 1) * BATCHES_A_ROUND * A_BATCH
    counted = sum(result["sampleSize"] for result in results.values())
    return print_bars({f"every exposure counts: {counted:,} users": counted >= reported})
