"""Get Variant for exposed users, compared with a bare application that reads the same body, at the same time."""

from __future__ import annotations

from dataclasses import replace
from statistics import median

from tests.benchmarks.bench_evaluation import FLAG, measure
from tests.benchmarks.hello import serving_hello
from tests.benchmarks.load import EACH, Request, Sample
from tests.benchmarks.servers import serving_on_postgresql
from tests.benchmarks.tables import print_bars, print_samples
from tests.system.server import Server

WORKERS, THREADS = 2, 4
ROUNDS, USERS = 5, 1_000
LEAST_RATIO = 0.35

CONDITIONS = FLAG["rules"][0]["conditions"]
EXPERIMENT = {
    "key": "checkout",
    "variants": [{"key": "control", "weight": 1}, {"key": "green", "weight": 1}],
    "conditions": CONDITIONS,
    "metrics": ["purchase"],
}
USER = {"userId": EACH, "attributes": {"country": "CH", "plan": "pro"}}


def run() -> bool:
    print(f"Assignment: {USERS:,} users, {WORKERS} workers, {ROUNDS} rounds of 3 seconds, PostgreSQL")
    with (
        serving_on_postgresql(workers=WORKERS, THREADS=str(THREADS)) as server,
        serving_hello(workers=WORKERS, threads=THREADS, name="reading") as (bare_url, bare_pids),
    ):
        server.ask("POST", "/v1/experiments", json=EXPERIMENT).raise_for_status()
        server.ask("POST", "/v1/experiments/checkout/start").raise_for_status()
        address = f"{server.url}/v1/experiments/checkout/variant"
        variant = Request(address, "POST", server.headers("client"), USER, population=USERS)
        subjects = ((replace(variant, url=bare_url), bare_pids), (variant, server.pids()))
        while count_exposed(server) < USERS:
            measure(*subjects)  # not recorded: a warm-up
        return report([measure(*subjects) for _ in range(ROUNDS)])


def count_exposed(server: Server) -> int:
    results = server.ask("GET", "/v1/experiments/checkout").json()["data"]["results"]
    return sum(variant["sampleSize"] for variant in results.values())


def report(rounds: list[tuple[Sample, ...]]) -> bool:
    print_samples(("bare", "variant"), rounds)
    ratios = [variant.requests_a_second / bare.requests_a_second for bare, variant in rounds]
    print(f"variant / bare by round: {', '.join(f'{ratio:.2f}' for ratio in ratios)}; median {median(ratios):.2f}")
    return print_bars({f"variant at least {LEAST_RATIO} of a bare application": median(ratios) >= LEAST_RATIO})
