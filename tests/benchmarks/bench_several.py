"""All flags for one user in one request: some of them with and without the fast lane, and many against one flag, at
the same time.
"""

from __future__ import annotations

from dataclasses import replace
from statistics import median
from typing import Any

from tests.benchmarks.bench_evaluation import FLAG, USER, measure
from tests.benchmarks.load import Request, Sample
from tests.benchmarks.servers import serving_on_sqlite
from tests.benchmarks.tables import print_bars, print_samples
from tests.benchmarks.without_lane import elsewhere, ratio_of_cpu, ratio_of_rates, serving_without_lane
from tests.system.server import Server

FLAGS, FEW, ROUNDS = 1_000, 100, 5
MOST_TIMES, LEAST_GAIN = 30, 3


def run() -> bool:
    print(f"Several flags: {FLAGS:,} in one request against one, 2 workers, 32 connections, {ROUNDS} rounds, SQLite")
    with (
        serving_on_sqlite(workers=2, THREADS="4") as server,
        serving_without_lane(server) as other,
    ):
        create_flags(server, FLAGS)
        one = Request(f"{server.url}/v1/flags/flag-0/evaluate", "POST", server.headers("client"), USER)
        several = replace(one, url=f"{server.url}/v1/evaluate")
        answered = server.ask("POST", "/v1/evaluate", json=USER).json()["data"]
        assert len(answered) == FLAGS
        few = replace(several, body={**USER, "flags": [f"flag-{at}" for at in range(FEW)]})
        subjects = (*((request, server.pids()) for request in (one, several, few)), elsewhere(few, server, other))
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
    print_samples(("one flag", f"{FLAGS:,} flags", f"{FEW} flags", f"{FEW} flags without lane"), rounds)
    times = [ratio_of_cpu(several, one) for one, several, *_ in rounds]
    print(f"by round: {', '.join(f'{time:.1f}' for time in times)} times the CPU of one")
    gain = median(ratio_of_rates(few, other) for *_, few, other in rounds)
    return print_bars(
        {
            f"{FLAGS:,} flags at most {MOST_TIMES} times the cost of one: {median(times):.1f}": median(times)
            <= MOST_TIMES,
            f"{FEW} flags at least {LEAST_GAIN} times as fast as without the fast lane: {gain:.1f}": gain >= LEAST_GAIN,
        }
    )
