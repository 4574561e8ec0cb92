"""Evaluation in process through OpenFeature's SDK for Python: what Halyard's provider adds to engine and SDK."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from statistics import median
from time import process_time
from typing import Any

import httpx
from halyard_openfeature import HalyardProvider
from openfeature import api
from openfeature.client import OpenFeatureClient
from openfeature.evaluation_context import EvaluationContext
from openfeature.provider.no_op_provider import NoOpProvider

from flags.engine.evaluation import evaluate
from flags.engine.types import Configuration, Context
from flags.validation.parsing import parse_flag

ROUNDS, TIMES = 5, 20_000
MOST_FACTOR = 5
COUNTRIES = ["CH", "DE"]
RULE: dict[str, Any] = {
    "type": "percentage",
    "percentage": 50,
    "conditions": [{"attribute": "country", "operator": "in", "value": COUNTRIES}],
}
FLAG: dict[str, Any] = {"key": "new-checkout", "enabled": True, "rules": [RULE]}
ATTRIBUTES = {"country": "CH", "plan": "pro"}
USERS = [f"user-{number}" for number in range(1_000)]


def run() -> bool:
    print(f"Python client: one user, a share of 50 % with one condition; {ROUNDS} rounds of {TIMES:,}")
    asked = (engine(), through(NoOpProvider(), "no-op"), through(local_provider(), "local"))
    rounds = [tuple(map(timed, asked)) for _ in range(ROUNDS)]
    api.clear_providers()
    names = ("Halyard's engine", "OpenFeature's SDK, no-op provider", "OpenFeature's SDK, Halyard's provider")
    for name, times in zip(names, zip(*rounds, strict=True), strict=True):
        print(f"{name:40}{median(times):8.2f} µs{min(times):10.2f} - {max(times):.2f}")
    factor = median(ours / (own + nothing) for own, nothing, ours in rounds)
    holds = factor <= MOST_FACTOR
    bar = f"at most {MOST_FACTOR} times the engine and the no-op provider together: {factor:.2f} times"
    print(f"{'holds' if holds else 'FAILS'}: {bar}")
    return holds


def timed(ask: Callable[[str], object]) -> float:
    """Return the CPU time of this process for one evaluation, in microseconds."""
    started = process_time()
    for at in range(TIMES):
        ask(USERS[at % len(USERS)])
    return (process_time() - started) / TIMES * 1e6


def engine() -> Callable[[str], object]:
    flag = parse_flag(FLAG)
    configuration, now = Configuration({flag.key: flag}, {}), datetime.now(UTC)
    return lambda user: evaluate(flag, Context(user, ATTRIBUTES, configuration, now)).enabled


def local_provider() -> HalyardProvider:
    """A provider in local mode, whose service is in memory."""
    ruleset = {"environment": "production", "revision": 1, "flags": [FLAG], "segments": []}

    def answer(request: httpx.Request) -> httpx.Response:
        is_ruleset = request.url.path == "/v1/ruleset"
        return httpx.Response(200, json={"data": ruleset} if is_ruleset else {"flags": []})

    options = {"transport": httpx.MockTransport(answer)}
    return HalyardProvider("http://flags.test", "key", mode="local", poll_interval=3_600, http_options=options)


def through(provider: Any, domain: str) -> Callable[[str], object]:
    api.set_provider_and_wait(provider, domain)
    client: OpenFeatureClient = api.get_client(domain)
    return lambda user: client.get_boolean_value("new-checkout", False, EvaluationContext(user, ATTRIBUTES))
