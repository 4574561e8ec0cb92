"""Announcing a change to a thousand open streams: the delay of the first and the last, and the
cost.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from typing import IO
from urllib.parse import urlsplit

from tests.benchmarks.load import cpu_seconds, resident_mib
from tests.benchmarks.servers import serving_on_sqlite
from tests.system.server import Server

STREAMS, CHANGES = 1_000, 20
SECONDS_BETWEEN_CHANGES = 1.2
"""More than between two messages, or some of them would wait for their turn."""
MOST_LAST_TO_FIRST = 20
MOST_MB = 150


def run() -> bool:
    print(f"Streams: {STREAMS:,} open on one process, {CHANGES} changes, SQLite")
    with serving_on_sqlite() as server:
        server.ask("POST", "/v1/flags", json={"key": "toggled"}).raise_for_status()
        pid = server.stream_pid()
        assert pid is not None
        idle = resident_mib(pid)
        with listening(server) as arrivals:
            toggle(server, 0, arrivals)  # unrecorded, as the first of everything is slow
            before = cpu_seconds([pid])
            started = time.monotonic()
            rounds = [toggle(server, at, arrivals) for at in range(1, CHANGES + 1)]
            used = cpu_seconds([pid]) - before
            seconds = time.monotonic() - started
            return report(rounds, used, seconds, idle, resident_mib(pid))


@contextmanager
def listening(server: Server) -> Iterator[IO[str]]:
    """Clients with open streams; given are the lines in which they tell of each message."""
    answer = server.ask("POST", "/ofrep/v1/evaluate/flags", json={"context": {}}).json()
    url = urlsplit(answer["eventStreams"][0]["url"])
    path = f"{url.path}?{url.query}"
    what = [str(url.port), path, str(answer["metadata"]["revision"]), str(STREAMS)]
    command = [sys.executable, "-m", "tests.benchmarks.stream_clients", *what]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as clients:
        assert clients.stdout is not None
        assert clients.stdout.readline() == "open\n"
        yield clients.stdout
        clients.kill()


def toggle(server: Server, at: int, arrivals: IO[str]) -> list[float]:
    """Milliseconds from sending a change to each client's message, in order."""
    time.sleep(SECONDS_BETWEEN_CHANGES)
    with server.client() as client:
        client.get("/v1/flags/toggled").raise_for_status()  # the connection is there before the clock starts
        sent = time.monotonic_ns()
        client.patch("/v1/flags/toggled", json={"enabled": at % 2 == 0}).raise_for_status()
    return sorted((arrived - sent) / 1e6 for arrived in json.loads(arrivals.readline()))


def report(rounds: list[list[float]], cpu: float, seconds: float, idle: float, busy: float) -> bool:
    first, middle, last = (median(pick(delays) for delays in rounds) for pick in (min, median, max))
    ratio = median(max(delays) / min(delays) for delays in rounds)
    print("from sending a change to the message, medians over all changes:")
    print(f"first {first:.1f} ms, median {middle:.1f} ms, last {last:.1f} ms; last / first {ratio:.1f}")
    print(f"slowest of all {max(max(delays) for delays in rounds):.1f} ms")
    print(f"CPU of the process {cpu / len(rounds) * 1e3:.0f} ms a change, {cpu / seconds:.1%} of a core")
    print(f"resident memory {idle:.0f} MiB without streams, {busy:.0f} MiB with them")
    bars = {
        f"the last one hears at most {MOST_LAST_TO_FIRST} times as late as the first": ratio <= MOST_LAST_TO_FIRST,
        f"the process under {MOST_MB} MB": busy * 1024**2 < MOST_MB * 10**6,
    }
    for bar, holds in bars.items():
        print(f"{'holds' if holds else 'FAILS'}: {bar}")
    return all(bars.values())
