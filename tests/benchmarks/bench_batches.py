"""Batches of events over HTTP, against clients that COPY ready-made rows into the same table; and a
million of them.
"""

from __future__ import annotations

from statistics import median

import psycopg

from tests.benchmarks.batch_clients import (
    A_BATCH,
    Stretch,
    send_by_copy,
    send_by_http,
    send_by_http_for_long,
    send_together,
    start_experiment,
)
from tests.benchmarks.load import resident_mib
from tests.benchmarks.servers import serving_on_postgresql
from tests.benchmarks.tables import print_bars
from tests.system.server import Server

WORKERS, ROUNDS = 2, 5
HTTP_CLIENTS, COPY_CLIENTS, BATCHES_A_ROUND = 4, 2, 160
LEAST_RATIO = 0.45
MANY_CLIENTS, WARM_UP, MANY_EVENTS = 10, 100_000, 1_000_000
MOST_GROWTH = 0.1


def run() -> bool:
    print(
        f"Batches of {A_BATCH}: {WORKERS} workers, {HTTP_CLIENTS} clients over HTTP against {COPY_CLIENTS} by COPY, "
        f"{ROUNDS} rounds of {BATCHES_A_ROUND * A_BATCH:,} events each, PostgreSQL"
    )
    with serving_on_postgresql(workers=WORKERS) as server:
        database = server.environment["DATABASE_URL"]
        start_experiment(server)
        measure(server, database)  # not recorded: a warm-up
        rounds = [measure(server, database) for _ in range(ROUNDS)]
        return all([report(rounds), send_many(server), are_all_there(database)])


def measure(server: Server, database: str) -> tuple[Stretch, Stretch]:
    """COPY and then HTTP, so that a slow moment of the machine hits both."""
    copy = (database, BATCHES_A_ROUND // COPY_CLIENTS)
    http = (server.port, server.headers("client"), BATCHES_A_ROUND // HTTP_CLIENTS)
    return (
        send_together(send_by_copy, [copy] * COPY_CLIENTS, server.pids()),
        send_together(send_by_http, [http] * HTTP_CLIENTS, server.pids()),
    )


def report(rounds: list[tuple[Stretch, Stretch]]) -> bool:
    events = BATCHES_A_ROUND * A_BATCH
    print(f"{'':8}{'events/s':>12}{'min - max':>22}{'CPU µs/event':>14}{'of it the server':>18}")
    for name, stretches in zip(("COPY", "batches"), zip(*rounds, strict=True), strict=True):
        rates = [events / stretch.seconds for stretch in stretches]
        machine, server = (median(stretch[at] for stretch in stretches) / events * 1e6 for at in (1, 2))
        span = f"{min(rates):,.0f} - {max(rates):,.0f}"
        print(f"{name:8}{median(rates):12,.0f}{span:>22}{machine:14.1f}{server:18.1f}")
    ratios = [copy.seconds / batches.seconds for copy, batches in rounds]
    print(f"batches / COPY by round: {', '.join(f'{ratio:.2f}' for ratio in ratios)}; median {median(ratios):.2f}")
    return print_bars({f"batches at least {LEAST_RATIO} of COPY": median(ratios) >= LEAST_RATIO})


def send_many(server: Server) -> bool:
    """Return whether memory stays constant while very many events are recorded."""
    _send_by_many(server, WARM_UP)  # by as many clients, so that each thread has had its part of the work
    before = [resident_mib(pid) for pid in server.worker_pids()]
    stretch = _send_by_many(server, MANY_EVENTS)
    after = [resident_mib(pid) for pid in server.worker_pids()]
    print(f"{MANY_EVENTS:,} events by {MANY_CLIENTS} clients: {MANY_EVENTS / stretch.seconds:,.0f} events/s")
    print(f"resident memory of the workers: {_listed(before)} at the start, {_listed(after)} at the end")
    bar = f"a million events make the workers' memory grow by less than {MOST_GROWTH:.0%}"
    return print_bars({bar: sum(after) < sum(before) * (1 + MOST_GROWTH)})


def _send_by_many(server: Server, events: int) -> Stretch:
    batches = events // MANY_CLIENTS // A_BATCH
    arguments = [(server.port, server.headers("client"), batches)] * MANY_CLIENTS
    return send_together(send_by_http_for_long, arguments, server.pids())


def _listed(mib: list[float]) -> str:
    return " and ".join(f"{size:.1f} MiB" for size in mib)


def are_all_there(database: str) -> bool:
    """Every event once: the clients have seen `accepted` for each that they sent over HTTP."""
    with psycopg.connect(database) as connection:
        [[stored]] = connection.execute("SELECT COUNT(*) FROM events_event")
        [[counted]] = connection.execute("SELECT SUM(count) FROM events_eventcount")
    over_http = (ROUNDS + 1) * BATCHES_A_ROUND * A_BATCH + WARM_UP + MANY_EVENTS
    by_copy = (ROUNDS + 1) * BATCHES_A_ROUND * A_BATCH
    return print_bars({"every event is there once": (stored, counted) == (over_http + by_copy, over_http)})
