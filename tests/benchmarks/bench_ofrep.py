"""OFREP against evaluating one flag under /v1, on the same server at the same time: one flag, all
flags, no change.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from statistics import median

from tests.benchmarks.bench_evaluation import USER, measure
from tests.benchmarks.bench_several import create_flags
from tests.benchmarks.load import Request, Sample
from tests.benchmarks.tables import print_bars, print_samples
from tests.system.server import Server, serving

FLAGS, ROUNDS = 100, 5
NAMES = ("/v1 evaluate", "OFREP, one flag", f"OFREP, {FLAGS} flags", "OFREP, no change")
LEAST_RATIOS = {"OFREP, one flag": 0.9, f"OFREP, {FLAGS} flags": 0.25}
CONTEXT = {"context": {"targetingKey": USER["userId"], **USER["attributes"]}}


def run() -> bool:
    print(f"OFREP: 2 workers, 32 connections, {ROUNDS} rounds of 3 seconds, SQLite")
    with tempfile.TemporaryDirectory(prefix="halyard-bench-") as name:
        folder = Path(name)
        database = f"sqlite:///{folder / 'halyard.sqlite3'}"
        # Each answer of all flags names a stream, and carries a token for it.
        with serving(folder, database, workers=2, THREADS="4", STREAM_URL="https://flags.example.com") as server:
            create_flags(server, FLAGS)
            subjects = tuple((request, server.pids()) for request in requests(server))
            measure(*subjects)  # not recorded: a warm-up
            rounds = [measure(*subjects) for _ in range(ROUNDS)]
    return report(rounds)


def requests(server: Server) -> tuple[Request, ...]:
    """One for each name. wrk counts a 304 as a good answer."""
    one = Request(f"{server.url}/v1/flags/flag-0/evaluate", "POST", server.headers("client"), USER)
    flag = replace(one, url=f"{server.url}/ofrep/v1/evaluate/flags/flag-0", body=CONTEXT)
    every = replace(flag, url=f"{server.url}/ofrep/v1/evaluate/flags")
    answer = server.ask("POST", "/ofrep/v1/evaluate/flags", json=CONTEXT, key=server.keys["production"]["client"])
    assert len(answer.json()["flags"]) == FLAGS
    return one, flag, every, replace(every, headers={**every.headers, "If-None-Match": answer.headers["ETag"]})


def report(rounds: list[tuple[Sample, ...]]) -> bool:
    print_samples(NAMES, rounds)
    bars = {}
    for name, least in LEAST_RATIOS.items():
        at = NAMES.index(name)
        ratio = median(samples[at].requests_a_second / samples[0].requests_a_second for samples in rounds)
        bars[f"{name}: at least {least} of {NAMES[0]}, {ratio:.2f}"] = ratio >= least
    return print_bars(bars)
