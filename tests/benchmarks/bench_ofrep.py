"""OFREP, one flag, all flags and no change, against a bare application that reads the same body, at
the same time.
"""

from __future__ import annotations

from dataclasses import replace
from statistics import median

from tests.benchmarks.bench_evaluation import USER, measure
from tests.benchmarks.bench_several import create_flags
from tests.benchmarks.hello import serving_hello
from tests.benchmarks.load import Request, Sample
from tests.benchmarks.servers import serving_on_sqlite
from tests.benchmarks.tables import print_bars, print_samples
from tests.system.server import Server

FLAGS, ROUNDS = 100, 5
NAMES = ("bare", "OFREP, one flag", f"OFREP, {FLAGS} flags", "OFREP, no change")
LEAST_RATIOS = {"OFREP, one flag": 0.4, f"OFREP, {FLAGS} flags": 0.08}
CONTEXT = {"context": {"targetingKey": USER["userId"], **USER["attributes"]}}


def run() -> bool:
    print(f"OFREP: 2 workers, 32 connections, {ROUNDS} rounds of 3 seconds, SQLite")
    # Each answer of all flags names a stream, and carries a token for it.
    with (
        serving_on_sqlite(workers=2, THREADS="4", STREAM_URL="https://flags.example.com") as server,
        serving_hello(workers=2, threads=4, name="reading") as (bare_url, bare_pids),
    ):
        create_flags(server, FLAGS)
        flag, *others = requests(server)
        bare = replace(flag, url=bare_url), bare_pids
        subjects = (bare, *((request, server.pids()) for request in (flag, *others)))
        measure(*subjects)  # not recorded: a warm-up
        rounds = [measure(*subjects) for _ in range(ROUNDS)]
    return report(rounds)


def requests(server: Server) -> tuple[Request, ...]:
    """One for each name but the first. wrk counts a 304 as a good answer."""
    flag = Request(f"{server.url}/ofrep/v1/evaluate/flags/flag-0", "POST", server.headers("client"), CONTEXT)
    every = replace(flag, url=f"{server.url}/ofrep/v1/evaluate/flags")
    answer = server.ask("POST", "/ofrep/v1/evaluate/flags", json=CONTEXT, key=server.keys["production"]["client"])
    assert len(answer.json()["flags"]) == FLAGS
    return flag, every, replace(every, headers={**every.headers, "If-None-Match": answer.headers["ETag"]})


def report(rounds: list[tuple[Sample, ...]]) -> bool:
    print_samples(NAMES, rounds)
    bars = {}
    for name, least in LEAST_RATIOS.items():
        at = NAMES.index(name)
        ratio = median(samples[at].requests_a_second / samples[0].requests_a_second for samples in rounds)
        bars[f"{name}: at least {least} of {NAMES[0]}, {ratio:.2f}"] = ratio >= least
    return print_bars(bars)
