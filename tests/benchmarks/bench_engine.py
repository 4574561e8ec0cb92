"""Evaluation in process, compared with GrowthBook's SDK for Python, and the cost of applying a
change.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from datetime import UTC, datetime
from statistics import median
from time import process_time
from typing import Any

from growthbook import GrowthBook

from flags.engine.evaluation import evaluate
from flags.engine.types import Configuration, Context
from flags.validation.parsing import parse_flag

ROUNDS, TIMES = 7, 50_000
LEAST_FACTOR = 8
COUNTRIES = ["CH", "DE"]
USERS = [f"user-{number}" for number in range(1_000)]


def run() -> bool:
    print(f"Engine: one user, a share of 50 % with one condition on an attribute; {ROUNDS} rounds of {TIMES:,}")
    rounds = [(timed(peer()), timed(ours(fresh=False)), timed(ours(fresh=True))) for _ in range(ROUNDS)]
    names = ("GrowthBook's SDK", "Halyard, user known", "Halyard, new user each time")
    for name, times in zip(names, zip(*rounds, strict=True), strict=True):
        print(f"{name:30}{median(times):8.3f} µs{min(times):10.3f} - {max(times):.3f}")
    factor = median(theirs / known for theirs, known, _ in rounds)
    holds = factor >= LEAST_FACTOR
    bar = f"at least {LEAST_FACTOR} times as fast as GrowthBook's SDK: {factor:.1f} times"
    print(f"{'holds' if holds else 'FAILS'}: {bar}")
    return holds


def timed(ask: Callable[[int], object]) -> float:
    """Return the CPU time of this process for one call, in microseconds."""
    started = process_time()
    for at in range(TIMES):
        ask(at)
    return (process_time() - started) / TIMES * 1e6


def peer() -> Callable[[int], object]:
    """The SDK as its manual has it: one object for each user, asked for a feature."""
    rule = {"condition": {"country": {"$in": COUNTRIES}}, "force": True, "coverage": 0.5, "hashAttribute": "id"}
    features = {"new-checkout": {"defaultValue": False, "rules": [rule]}}
    clients = [
        GrowthBook(attributes={"id": user, "country": "CH", "plan": "pro"}, features=copy.deepcopy(features))
        for user in USERS
    ]
    assert 400 < sum(sdk.is_on("new-checkout") for sdk in clients) < 600
    return lambda at: clients[at % len(clients)].is_on("new-checkout")


def ours(*, fresh: bool) -> Callable[[int], object]:
    rule: dict[str, Any] = {
        "type": "percentage",
        "percentage": 50,
        "conditions": [{"attribute": "country", "operator": "in", "value": COUNTRIES}],
    }
    flag = parse_flag({"key": "new-checkout", "enabled": True, "rules": [rule]})
    configuration, now = Configuration({flag.key: flag}, {}), datetime.now(UTC)
    attributes = {"country": "CH", "plan": "pro"}
    contexts = [Context(user, attributes, configuration, now) for user in USERS]
    assert 400 < sum(evaluate(flag, context).enabled for context in contexts) < 600
    if fresh:
        return lambda at: evaluate(flag, Context(USERS[at % len(USERS)], attributes, configuration, now)).enabled
    return lambda at: evaluate(flag, contexts[at % len(contexts)]).enabled
