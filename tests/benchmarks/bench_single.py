"""Single events and exposures of new users over HTTP, compared with plain Django REST framework."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from statistics import median

from tests.benchmarks.hello import serving_wsgi
from tests.benchmarks.load import EACH, Request, Sample, press
from tests.benchmarks.servers import serving_on_postgresql
from tests.benchmarks.tables import print_bars, print_samples
from tests.benchmarks.without_lane import Subject, elsewhere, ratio_of_rates, serving_without_lane
from tests.system.server import Server

WORKERS, THREADS, CONNECTIONS = 2, 20, 64
"""As many threads for two servers as PostgreSQL's hundred connections allow. Group commit needs company to
gain.
"""
THREADS_OF_LANES = 10
"""This comparison leaves connections to others, because none of its answers may be a failure."""
ROUNDS, SECONDS = 5, 3
LEAST_OF_EVENTS, LEAST_OF_EXPOSURE, LEAST_OF_LANE = 2.5, 4.0, 2.5

EXPERIMENT = {
    "key": "checkout",
    "variants": [{"key": "control", "weight": 1}, {"key": "green", "weight": 1}],
    "metrics": ["purchase"],
}
PROPERTIES = {"revenue": 49.9, "currency": "CHF", "plan": "pro", "items": 3}
SUBJECTS = ("plain event", "event", "plain exposure", "exposure")


def run() -> bool:
    print(f"Singles: {WORKERS} workers, {CONNECTIONS} connections, {ROUNDS} rounds of {SECONDS} seconds, PostgreSQL")
    with serving_experiment(THREADS) as server, serving_plain(server) as plain:
        rounds = measure_rounds(make_subjects(server, *plain))
    with serving_experiment(THREADS_OF_LANES) as server, serving_without_lane(server) as other:
        event = make_event(server)
        rounds_of_lane = measure_rounds([event, elsewhere(event[0], server, other)])
    return report(rounds, rounds_of_lane)


@contextmanager
def serving_experiment(threads: int) -> Iterator[Server]:
    """Serve a new database with an experiment that runs."""
    with serving_on_postgresql(workers=WORKERS, THREADS=str(threads)) as server:
        server.ask("POST", "/v1/experiments", json=EXPERIMENT).raise_for_status()
        server.ask("POST", "/v1/experiments/checkout/start").raise_for_status()
        yield server


def serving_plain(server: Server) -> AbstractContextManager[tuple[str, list[int]]]:
    """Serve the views that it is compared with, on the same database."""
    settings = {"DJANGO_SETTINGS_MODULE": "tests.benchmarks.plain_settings", "LOG_LEVEL": "ERROR"}
    environment = {**server.environment, **settings}
    target = "django.core.wsgi:get_wsgi_application"
    return serving_wsgi(target, environment, "--factory", workers=WORKERS, threads=THREADS)


def make_subjects(server: Server, plain_url: str, plain_pids: list[int]) -> list[Subject]:
    """In the order of `SUBJECTS`. Every request is one of a user of its own."""
    headers, pids = server.headers("client"), server.pids()
    plain_event = {"name": "purchase", "user_id": EACH, "properties": PROPERTIES}
    return [
        (Request(f"{plain_url}events/", "POST", {}, plain_event), plain_pids),
        make_event(server),
        (Request(f"{plain_url}experiments/checkout/variant/", "POST", {}, {"userId": EACH}), plain_pids),
        (Request(f"{server.url}/v1/experiments/checkout/variant", "POST", headers, {"userId": EACH}), pids),
    ]


def make_event(server: Server) -> Subject:
    event = {"event": "purchase", "userId": EACH, "properties": PROPERTIES}
    return Request(f"{server.url}/v1/events", "POST", server.headers("client"), event), server.pids()


def measure_rounds(subjects: list[Subject]) -> list[tuple[Sample, ...]]:
    measure(subjects)  # not recorded: a warm-up
    return [measure(subjects) for _ in range(ROUNDS)]


def measure(subjects: list[Subject]) -> tuple[Sample, ...]:
    """One after the other, so that a slow moment of the machine hits all of them."""
    return tuple(press(request, pids, seconds=SECONDS, connections=CONNECTIONS) for request, pids in subjects)


def report(rounds: list[tuple[Sample, ...]], rounds_of_lane: list[tuple[Sample, ...]]) -> bool:
    print_samples(SUBJECTS, rounds)
    print_samples(("event", "without lane"), rounds_of_lane)
    events = _ratios([(plain, ours) for plain, ours, *_ in rounds], "event")
    exposures = _ratios([(plain, ours) for *_, plain, ours in rounds], "exposure")
    gain = median(ratio_of_rates(ours, other) for ours, other in rounds_of_lane)
    return print_bars(
        {
            f"events at least {LEAST_OF_EVENTS} times those of a plain create view": events >= LEAST_OF_EVENTS,
            f"exposures at least {LEAST_OF_EXPOSURE:.0f} times those of get_or_create": exposures >= LEAST_OF_EXPOSURE,
            f"events at least {LEAST_OF_LANE} times those without the fast lane: {gain:.2f}": gain >= LEAST_OF_LANE,
        }
    )


def _ratios(pairs: list[tuple[Sample, Sample]], name: str) -> float:
    ratios = [ours.requests_a_second / plain.requests_a_second for plain, ours in pairs]
    print(
        f"{name} / plain {name} by round: {', '.join(f'{ratio:.2f}' for ratio in ratios)}; median {median(ratios):.2f}"
    )
    return median(ratios)
