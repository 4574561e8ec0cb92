"""All flags for one user in one request, against one flag for that user, on the same server at the
same time.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from tests.benchmarks.bench_evaluation import FLAG, USER, measure
from tests.benchmarks.load import Request, Sample
from tests.benchmarks.tables import print_bars
from tests.system.server import Server, serving

FLAGS, ROUNDS = 1_000, 5
MOST_TIMES = 12


def run() -> bool:
    print(f"Several flags: {FLAGS:,} in one request against one, 2 workers, 32 connections, {ROUNDS} rounds, SQLite")
    with tempfile.TemporaryDirectory(prefix="halyard-bench-") as name:
        folder = Path(name)
        with serving(folder, f"sqlite:///{folder / 'halyard.sqlite3'}", workers=2, THREADS="4") as server:
            create_flags(server, FLAGS)
            one = Request(f"{server.url}/v1/flags/flag-0/evaluate", "POST", server.headers("client"), USER)
            several = replace(one, url=f"{server.url}/v1/evaluate")
            answered = server.ask("POST", "/v1/evaluate", json=USER).json()["data"]
            assert len(answered) == FLAGS
            subjects = ((one, server.pids()), (several, server.pids()))
            measure(*subjects)  # not recorded: a warm-up
            rounds = [measure(*subjects) for _ in range(ROUNDS)]
    return report(rounds)


def create_flags(server: Server, count: int) -> None:
    """Three quarters as in the benchmark of one flag, and some of every other kind."""
    colours: dict[str, Any] = {
        "type": "string",
        "variants": [{"key": "red", "value": "#f00"}, {"key": "blue", "value": "#00f"}],
    }
    split = {"split": [{"variant": "red", "weight": 1}, {"variant": "blue", "weight": 3}]}
    kinds: list[dict[str, Any]] = [
        *({} for _ in range(9)),
        {"rules": []},
        {"enabled": False},
        {**colours, "rules": [{**FLAG["rules"][0], **split}]},
    ]
    with server.client() as client:
        for at in range(count):
            flag = {**FLAG, "key": f"flag-{at}", **kinds[at % len(kinds)]}
            client.post("/v1/flags", json=flag).raise_for_status()


def report(rounds: list[tuple[Sample, ...]]) -> bool:
    for name, samples in zip(("one flag", f"{FLAGS:,} flags"), zip(*rounds, strict=True), strict=True):
        rate = median(sample.requests_a_second for sample in samples)
        cpu = median(sample.microseconds_a_request for sample in samples)
        print(f"{name:12}{rate:12,.0f} requests/s{cpu:12,.0f} µs CPU a request")
    times = [several.microseconds_a_request / one.microseconds_a_request for one, several in rounds]
    print(f"by round: {', '.join(f'{time:.1f}' for time in times)} times the CPU of one")
    bar = f"{FLAGS:,} flags at most {MOST_TIMES} times the cost of one: {median(times):.1f} times"
    return print_bars({bar: median(times) <= MOST_TIMES})
