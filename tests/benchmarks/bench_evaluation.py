"""Evaluating a flag over HTTP with a key, against a bare application that reads the same body, and
against Django without the fast lane, on the same machine at the same time.
"""

from __future__ import annotations

from dataclasses import replace
from statistics import median

from tests.benchmarks.hello import serving_hello
from tests.benchmarks.load import Request, Sample, press, resident_mib
from tests.benchmarks.servers import serving_on_sqlite
from tests.benchmarks.tables import print_bars, print_samples
from tests.benchmarks.without_lane import elsewhere, ratio_of_cpu, ratio_of_rates, serving_without_lane

WORKERS, THREADS, CONNECTIONS = 2, 4, 32
ROUNDS, SECONDS = 5, 3
LEAST_RATIO, MOST_CPU = 0.45, 0.25
MOST_MIB_A_WORKER = 130

FLAG = {
    "key": "new-checkout",
    "enabled": True,
    "rules": [
        {
            "type": "percentage",
            "percentage": 50,
            "conditions": [{"attribute": "country", "operator": "in", "value": ["CH", "DE"]}],
        }
    ],
}
USER = {"userId": "user-17", "attributes": {"country": "CH", "plan": "pro"}}


def run() -> bool:
    print(f"Evaluation: {WORKERS} workers, {CONNECTIONS} connections, {ROUNDS} rounds of {SECONDS} seconds, SQLite")
    with (
        serving_on_sqlite(workers=WORKERS, THREADS=str(THREADS)) as server,
        serving_without_lane(server) as other,
        serving_hello(workers=WORKERS, threads=THREADS, name="reading") as (bare_url, bare_pids),
    ):
        server.ask("POST", "/v1/flags", json=FLAG).raise_for_status()
        address = f"{server.url}/v1/flags/{FLAG['key']}/evaluate"
        evaluation = Request(address, "POST", server.headers("client"), USER)
        bare = replace(evaluation, url=bare_url)
        subjects = ((bare, bare_pids), (evaluation, server.pids()), elsewhere(evaluation, server, other))
        measure(*subjects)  # not recorded: a warm-up
        rounds = [measure(*subjects) for _ in range(ROUNDS)]
        memory = [resident_mib(pid) for pid in server.worker_pids()]
    return report(rounds, memory)


def measure(*subjects: tuple[Request, list[int]]) -> tuple[Sample, ...]:
    """One after the other, so that a slow moment of the machine hits all of them."""
    return tuple(press(request, pids, seconds=SECONDS, connections=CONNECTIONS) for request, pids in subjects)


def report(rounds: list[tuple[Sample, ...]], memory: list[float]) -> bool:
    print_samples(("bare", "evaluation", "without lane"), rounds)
    ratios = [ratio_of_rates(evaluation, bare) for bare, evaluation, _ in rounds]
    print(f"evaluation / bare by round: {', '.join(f'{ratio:.2f}' for ratio in ratios)}; median {median(ratios):.2f}")
    cpu = median(ratio_of_cpu(evaluation, other) for _, evaluation, other in rounds)
    print(f"resident memory of each worker: {', '.join(f'{size:.0f} MiB' for size in memory)}")
    bars = {
        f"evaluation at least {LEAST_RATIO} of a bare application": median(ratios) >= LEAST_RATIO,
        f"at most {MOST_CPU} of the CPU without the fast lane, {cpu:.2f}": cpu <= MOST_CPU,
        f"a worker under {MOST_MIB_A_WORKER} MB": max(memory) * 1024**2 < MOST_MIB_A_WORKER * 10**6,
    }
    return print_bars(bars)
