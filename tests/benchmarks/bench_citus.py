"""Citus with two workers against PostgreSQL, both on this machine: what several servers cost where one would do."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

from tests.benchmarks.batch_clients import A_BATCH, send_by_http, send_together, start_experiment
from tests.benchmarks.bench_single import make_event
from tests.benchmarks.load import MissingTool, press
from tests.benchmarks.tables import print_bars
from tests.citus.cluster import own_citus
from tests.system.cluster import own_cluster
from tests.system.server import Server, serving

WORKERS, THREADS, CONNECTIONS = 2, 10, 32
ROUNDS, SECONDS = 7, 6
HTTP_CLIENTS, BATCHES_A_ROUND = 4, 80
USERS, EVENTS = 100_000, 1_000_000
LEAST_OF_EVENTS, MOST_FROM_TOTALS, MOST_FROM_SCRATCH = 0.5, 3.0, 1.5

Rounds = Mapping[str, list[float]]
"""By what was measured: the ratios of Citus to PostgreSQL in each round."""


def run() -> bool:
    print(
        f"Citus: a coordinator and two workers against PostgreSQL; {ROUNDS} rounds; results of {USERS:,} users and "
        f"{EVENTS:,} events"
    )
    try:
        with tempfile.TemporaryDirectory(prefix="halyard-bench-") as name, servers(Path(name)) as (plain, citus):
            rounds = {**measure_events(plain, citus), **measure_results(plain, citus)}
    except MissingTool as error:  # which few have, and the other benchmarks do without
        print(f"Left out. {error}")
        return True
    for what, ratios in rounds.items():
        listed = ", ".join(f"{ratio:.2f}" for ratio in ratios)
        print(f"{what}, Citus / PostgreSQL by round: {listed}; median {median(ratios):.2f}")
    of = {what: median(ratios) for what, ratios in rounds.items()}
    return print_bars(
        {
            f"batches at least {LEAST_OF_EVENTS}": of["batches"] >= LEAST_OF_EVENTS,
            f"single events at least {LEAST_OF_EVENTS}": of["single events"] >= LEAST_OF_EVENTS,
            f"results from totals take at most {MOST_FROM_TOTALS} times as long": of["totals"] <= MOST_FROM_TOTALS,
            f"results from scratch at most {MOST_FROM_SCRATCH} times": of["scratch"] <= MOST_FROM_SCRATCH,
        }
    )


@contextmanager
def servers(folder: Path) -> Iterator[tuple[Server, Server]]:
    """Serve a database of PostgreSQL and one of Citus, each on servers of its own."""
    with ExitStack() as running:
        plain_url = running.enter_context(own_cluster()).url
        try:
            citus_url = running.enter_context(own_citus()).make_database("halyard")
        except AssertionError as error:
            raise MissingTool(f"This benchmark needs PostgreSQL with the extension citus: {error}") from error
        served = []
        for name, url in (("plain", plain_url), ("citus", citus_url)):
            (folder / name).mkdir()
            prepared = Server(folder / name, url)
            prepared.prepare()
            if name == "citus":
                prepared.run("manage.py", "distribute")
            options = {"keys": prepared.keys, "workers": WORKERS, "THREADS": str(THREADS)}
            served.append(running.enter_context(serving(folder / name, url, **options)))  # type: ignore[arg-type]
        yield served[0], served[1]


def measure_events(plain: Server, citus: Server) -> Rounds:
    both = (plain, citus)
    for server in both:
        start_experiment(server)
        seconds_of_batches(server)  # not recorded: a warm-up
    batches, singles = [], []
    for number in range(ROUNDS):
        of_plain, of_citus = each_in_turn(seconds_of_batches, both, number)
        batches.append(of_plain / of_citus)
        of_plain, of_citus = each_in_turn(singles_a_second, both, number)
        singles.append(of_citus / of_plain)
    return {"batches": batches, "single events": singles}


def each_in_turn(measure: Callable[[Server], float], servers: Sequence[Server], number: int) -> list[float]:
    """Measure the servers, of which each comes first in every other round. A checkpoint of one may slow the next."""
    step = -1 if number % 2 else 1
    return [measure(server) for server in servers[::step]][::step]


def seconds_of_batches(server: Server) -> float:
    arguments = (server.port, server.headers("client"), BATCHES_A_ROUND // HTTP_CLIENTS)
    stretch = send_together(send_by_http, [arguments] * HTTP_CLIENTS, server.pids())
    print(f"    {BATCHES_A_ROUND * A_BATCH / stretch.seconds:,.0f} events/s in batches")
    return stretch.seconds


def singles_a_second(server: Server) -> float:
    request, pids = make_event(server)
    sample = press(request, pids, seconds=SECONDS, connections=CONNECTIONS)
    print(
        f"    {sample.requests_a_second:,.0f} single events/s, p99 {sample.milliseconds_99:.0f} ms, "
        f"{sample.microseconds_a_request:.0f} us of CPU each in the service"
    )
    return sample.requests_a_second


def measure_results(plain: Server, citus: Server) -> Rounds:
    for server in (plain, citus):
        read_results(server, "fill", str(USERS), str(EVENTS))
    totals, scratch = [], []
    for _ in range(ROUNDS):
        of_plain, of_citus = (read_results(server, "measure") for server in (plain, citus))
        totals.append(of_citus["totals"] / of_plain["totals"])
        scratch.append(of_citus["scratch"] / of_plain["scratch"])
        print(f"    results in seconds: PostgreSQL {of_plain}, Citus {of_citus}")
    return {"totals": totals, "scratch": scratch}


def read_results(server: Server, *arguments: str) -> dict[str, float]:
    """Run the process that fills the database of a server, or measures what it has."""
    command = [sys.executable, "-m", "tests.benchmarks.citus_results", *arguments]
    done = subprocess.run(command, cwd=server.code, env=server.environment, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found
