"""Evaluations while clients say nothing and while writes wait for a locked table, against evaluations alone."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from statistics import median

import httpx
import psycopg

from tests.benchmarks.load import Request, Sample, press
from tests.benchmarks.servers import serving_on_postgresql
from tests.benchmarks.tables import print_bars, print_samples
from tests.system.databases import for_psycopg
from tests.system.server import Server
from tests.system.slow_clients import dripping, idle, silent

WORKERS, CONNECTIONS, ROUNDS, SECONDS = 2, 32, 5, 3
SLOW, IDLE, WRITERS = 1_000, 3_000, 64
LEAST_RATIO, MOST_MILLISECONDS = 0.8, 100

FLAG = {"key": "known", "enabled": True}
EVENT = {"event": "view", "userId": "u"}

Trouble = Callable[[Server], AbstractContextManager[object]]


def run() -> bool:
    print(
        f"Waiting: evaluations alone and in trouble, {WORKERS} workers, {CONNECTIONS} connections, {ROUNDS} rounds of "
        f"{SECONDS} seconds, PostgreSQL"
    )
    with serving_on_postgresql(workers=WORKERS) as server:
        server.ask("POST", "/v1/flags", json=FLAG).raise_for_status()
        address = f"{server.url}/v1/flags/{FLAG['key']}/evaluate"
        evaluation = Request(address, "POST", server.headers("client"), {"userId": "u"})
        measure(server, evaluation)  # not recorded: a warm-up
        return report([measure(server, evaluation) for _ in range(ROUNDS)])


def measure(server: Server, evaluation: Request) -> tuple[Sample, ...]:
    """One after the other, so that a slow moment of the machine hits all of them."""
    samples = []
    for trouble in TROUBLES.values():
        with trouble(server):
            samples.append(press(evaluation, server.pids(), seconds=SECONDS, connections=CONNECTIONS))
    return tuple(samples)


def _slow_clients(server: Server) -> AbstractContextManager[object]:
    with ExitStack() as opened:
        opened.enter_context(silent(server, SLOW // 2))
        opened.enter_context(dripping(server, SLOW // 2))
        return opened.pop_all()


@contextmanager
def _blocked_writers(server: Server) -> Iterator[None]:
    """Let clients write events, again and again, into a table that somebody else has locked."""
    must_stop = threading.Event()

    def write() -> None:
        with server.client() as client:
            while not must_stop.is_set():
                answer: httpx.Response = client.post("/v1/events", json=EVENT)
                must_stop.wait(float(answer.headers.get("Retry-After", 0)))

    writers = [threading.Thread(target=write) for _ in range(WRITERS)]
    with psycopg.connect(for_psycopg(server.environment["DATABASE_URL"])) as connection:
        connection.execute("LOCK TABLE events_event")
        for writer in writers:
            writer.start()
        try:
            yield
        finally:
            must_stop.set()
            connection.rollback()
            for writer in writers:
                writer.join()


TROUBLES: dict[str, Trouble] = {
    "alone": nullcontext,
    f"{SLOW:,} slow clients": _slow_clients,
    f"{IDLE:,} idle clients": lambda server: idle(server, IDLE),
    f"{WRITERS} blocked writers": _blocked_writers,
}
"""What happens meanwhile. The first one is nothing."""


def report(rounds: list[tuple[Sample, ...]]) -> bool:
    print_samples([*TROUBLES], rounds)
    bars = {}
    for at, name in list(enumerate(TROUBLES))[1:]:
        ratio = median(samples[at].requests_a_second / samples[0].requests_a_second for samples in rounds)
        slowest = median(samples[at].milliseconds_99 for samples in rounds)
        bars[f"beside {name}, at least {LEAST_RATIO} of the rate alone: {ratio:.2f}"] = ratio >= LEAST_RATIO
        bars[f"beside {name}, p99 under {MOST_MILLISECONDS} ms: {slowest:.0f} ms"] = slowest < MOST_MILLISECONDS
    return print_bars(bars)
