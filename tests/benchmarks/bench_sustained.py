"""A minute of events in batches, evaluations, and a results page of a million users, all at once on PostgreSQL."""

from __future__ import annotations

import json
import resource
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from http.client import HTTPConnection
from pathlib import Path
from random import Random
from statistics import median
from typing import NamedTuple

from tests.benchmarks.batch_clients import A_BATCH, busy_seconds
from tests.benchmarks.load import Request, Sample, cpu_seconds, press, press_while
from tests.benchmarks.postgresql import fresh_database
from tests.benchmarks.sustained import USERS
from tests.benchmarks.tables import print_bars
from tests.system.server import Server

WORKERS, CONNECTIONS, CLIENTS = 2, 64, 4
PAUSING_CONNECTIONS = 1_024
"""Each pauses much longer than an answer takes, so that they ask as often when answers take a little longer."""
SECONDS, SECONDS_BETWEEN_PAGES = 60, 5
EVENTS_A_SECOND, SHARE_OF_PEAK = 5_000, 0.5
INTENDED_SHARE = 0.7
"""Clients of evaluations ask more often than they must, because each waits for its answer, too."""
MOST_SECONDS_OF_A_PAGE = 1.5

FLAG = {"key": "known", "enabled": True}
_NAMES = ("purchase", "basket", "basket", "search", "search", "search", "view", "view", "view", "view")


class Page(NamedTuple):
    """The address of a results page, and the cookie of a user who may see it."""

    page: str
    cookie: str


class Minute(NamedTuple):
    """What was measured while everything happened."""

    evaluations: Sample
    events: int
    pages: list[float]
    cores: Cores


class Cores(NamedTuple):
    """How many cores were busy on average: with the workers, the clients, and everything else, which is PostgreSQL."""

    workers: float
    clients: float
    others: float


def run() -> bool:
    print(
        f"Sustained for {SECONDS} s: {EVENTS_A_SECOND:,} events a second in batches, evaluations at {SHARE_OF_PEAK} of "
        f"their peak, and a results page of {USERS:,} users every {SECONDS_BETWEEN_PAGES} s, {WORKERS} workers, "
        "PostgreSQL"
    )
    with tempfile.TemporaryDirectory(prefix="halyard-bench-") as name, fresh_database() as database:
        server = Server(Path(name), database, workers=WORKERS)
        server.prepare()
        page = Page(**json.loads(server.run("-m", "tests.benchmarks.sustained")))
        try:
            server.start()
            server.ask("POST", "/v1/flags", json=FLAG).raise_for_status()
            return measure(server, page)
        finally:
            server.kill()


def measure(server: Server, page: Page) -> bool:
    evaluation = Request(f"{server.url}/v1/flags/known/evaluate", "POST", server.headers("client"), {"userId": "u"})
    read_page(server, page)  # which loads the statistics
    press(evaluation, [], seconds=SECONDS_BETWEEN_PAGES, connections=CONNECTIONS)  # not recorded: a warm-up
    peak = press(evaluation, [], seconds=2 * SECONDS_BETWEEN_PAGES, connections=CONNECTIONS)
    pause = round(1000 * PAUSING_CONNECTIONS / (INTENDED_SHARE * peak.requests_a_second))
    counts: list[int] = []
    pages: list[float] = []

    def act() -> None:
        with ThreadPoolExecutor(CLIENTS + 1) as pool:
            reading = pool.submit(lambda: pages.extend(read_pages(server, page)))
            sending = [pool.submit(send_batches, server, number) for number in range(CLIENTS)]
            counts.extend(future.result() for future in sending)
            reading.result()

    before = measure_cpu(server)
    [evaluations] = press_while([replace(evaluation, pause=pause)], act, connections=PAUSING_CONNECTIONS)
    workers, clients, all_together = (
        (late - early) / SECONDS for early, late in zip(before, measure_cpu(server), strict=True)
    )
    cores = Cores(workers, clients, all_together - workers - clients)
    return report(peak, Minute(evaluations, sum(counts), pages, cores))


def measure_cpu(server: Server) -> tuple[float, float, float]:
    """Return the CPU seconds so far of the workers, of this process and its clients, and of the whole machine."""
    used = (resource.getrusage(which) for which in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return cpu_seconds(server.pids()), sum(usage.ru_utime + usage.ru_stime for usage in used), busy_seconds()


def every(seconds: float) -> Iterator[None]:
    """Yield at even intervals until the time is over. If one comes late, the next ones do not wait."""
    begun = time.monotonic()
    for number in range(int(SECONDS / seconds)):
        time.sleep(max(0.0, begun + number * seconds - time.monotonic()))
        if time.monotonic() - begun > SECONDS:
            return
        yield


def send_batches(server: Server, number: int) -> int:
    """Return how many events of this client were accepted."""
    random, accepted = Random(number), 0
    headers = {**server.headers("client"), "Content-Type": "application/json"}
    connection = HTTPConnection("127.0.0.1", server.port, timeout=SECONDS)
    for _ in every(CLIENTS * A_BATCH / EVENTS_A_SECOND):
        connection.request("POST", "/v1/events/batch", json.dumps({"events": draw_events(random)}), headers)
        accepted += connection.getresponse().read().count(b'"accepted"')
    return accepted


def draw_events(random: Random) -> list[dict[str, object]]:
    """Return a batch of events that the metrics count, each of any user."""
    events: list[dict[str, object]] = []
    for _ in range(A_BATCH):
        event: dict[str, object] = {"event": random.choice(_NAMES), "userId": f"user-{random.randrange(USERS)}"}
        if event["event"] == "purchase":
            event["properties"] = {"revenue": random.randrange(10_000) / 100, "currency": "EUR"}
        events.append(event)
    return events


def read_pages(server: Server, page: Page) -> list[float]:
    return [read_page(server, page) for _ in every(SECONDS_BETWEEN_PAGES)]


def read_page(server: Server, page: Page) -> float:
    """Return the seconds that the results page of the experiment takes."""
    begun = time.monotonic()
    answer = server.ask("GET", page.page, headers={"Cookie": page.cookie})
    assert answer.status_code == 200, answer.status_code
    return time.monotonic() - begun


def report(peak: Sample, minute: Minute) -> bool:
    events, evaluations, slowest = minute.events / SECONDS, minute.evaluations, max(minute.pages)
    share = evaluations.requests_a_second / peak.requests_a_second
    print(f"evaluations: {peak.requests_a_second:,.0f}/s at their peak, p99 {peak.milliseconds_99:.1f} ms")
    print(f"sustained: {evaluations.requests_a_second:,.0f}/s, p99 {evaluations.milliseconds_99:.1f} ms")
    print(f"events: {events:,.0f}/s; {len(minute.pages)} pages: median {median(minute.pages):.2f} s")
    workers, clients, others = minute.cores
    print(
        f"cores: {workers:.2f} for the workers, {clients:.2f} for the clients, {others:.2f} for PostgreSQL and others"
    )
    return print_bars(
        {
            f"at least {EVENTS_A_SECOND:,} events/s: {events:,.0f}": events >= EVENTS_A_SECOND,
            f"evaluations at {SHARE_OF_PEAK} of their peak or more: {share:.2f}": share >= SHARE_OF_PEAK,
            f"no evaluation refused: {evaluations.failed}": not evaluations.failed,
            f"the slowest page at most {MOST_SECONDS_OF_A_PAGE} s: {slowest:.2f}": slowest <= MOST_SECONDS_OF_A_PAGE,
        }
    )
