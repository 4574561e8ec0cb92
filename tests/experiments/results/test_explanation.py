"""Explanations of figures, with each step computed again in plain Python from the events."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from statistics import fmean
from typing import Any, cast
from unittest.mock import ANY

import pytest

from config.models import Environment
from events.recording import NewEvent, new_id, record
from experiments.metrics.conditions import count_steps_passed, is_of
from experiments.metrics.definition import Condition, Definition, Quantity
from experiments.models import Experiment
from experiments.results.explain import explain, explain_all
from tests.conftest import NOON
from tests.experiments.results.quantiles_by_hand import quantile_by_hand
from tests.factories import ExperimentFactory

pytestmark = pytest.mark.django_db

LATER = NOON + timedelta(days=60)
READ_AT = NOON + timedelta(hours=85)
"""The windows of some users of random histories are still open then."""
BUYS = Quantity("buy")
AMOUNT = Quantity("buy", "amount")
EUROS = Quantity("buy", "revenue", "EUR")
IN_FRANCS = (Condition("currency", "in", ("CHF", "eur")), Condition("revenue", "greaterThanOrEqual", 1.5))
STEPS = (Quantity("look"), Quantity("buy", where=IN_FRANCS), Quantity("look", where=(Condition("amount", "exists"),)))
WINDOW = {"delay": timedelta(hours=1), "window": timedelta(hours=30)}
DEFINITIONS = {
    "conversion": Definition("m", 1, "conversion", BUYS),
    "conversion within a window": Definition("m", 1, "conversion", BUYS, **WINDOW),
    "retention": Definition("m", 1, "retention", BUYS, delay=timedelta(days=1), window=timedelta(days=2)),
    "count": Definition("m", 1, "count", BUYS, delay=timedelta(hours=2)),
    "capped count": Definition("m", 1, "count", BUYS, cap_value=2),
    "revenue": Definition("m", 1, "revenue", EUROS, **WINDOW),
    "revenue capped by percentile": Definition("m", 1, "revenue", EUROS, cap_percentile=75),
    "sum": Definition("m", 1, "sum", AMOUNT),
    "mean": Definition("m", 1, "mean", AMOUNT, **WINDOW),
    "ratio": Definition("m", 1, "ratio", EUROS, denominator=Quantity("look")),
    "conversion where": Definition("m", 1, "conversion", replace(BUYS, where=IN_FRANCS), **WINDOW),
    "sum where, capped by percentile": Definition("m", 1, "sum", replace(AMOUNT, where=IN_FRANCS), cap_percentile=60),
    "revenue where, capped": Definition("m", 1, "revenue", replace(EUROS, where=IN_FRANCS), cap_value=20),
    "ratio where": Definition("m", 1, "ratio", BUYS, denominator=replace(EUROS, where=IN_FRANCS)),
    "distinct": Definition("m", 1, "distinct", AMOUNT, **WINDOW),
    "distinct days where": Definition("m", 1, "distinct", replace(BUYS, where=IN_FRANCS)),
    "funnel": Definition("m", 1, "funnel", STEPS[0], steps=STEPS, window=timedelta(hours=40)),
    "quantile": Definition("m", 1, "quantile", replace(EUROS, where=IN_FRANCS), quantile=0.7, **WINDOW),
}


def test_explanation__of_one_purchase__describes_each_condition(production: Environment) -> None:
    experiment = make_experiment(replace(DEFINITIONS["revenue"], window=timedelta(hours=1)), stopped=True)
    properties = {"revenue": 5, "currency": "EUR"}
    expose({"u": ("green", NOON)}, production)
    record(
        [make_event("u", 1.5, **properties), make_event("v", 1.5, **properties), make_event("u", 2, **properties)],
        production,
    )

    explained = explain(experiment, 0, "green", now=LATER)
    assert [(step["name"], step["description"], step["rows"], step["users"]) for step in explained["steps"]] == [
        ("events_of_the_name", "Events named buy in the environment.", 3, 2),
        ("by_exposed_users", "Events by users who were exposed to the variant.", 2, 1),
        ("by_mature_users", "Events by users whose window had passed at 2026-02-03T12:00:00.000000Z.", 2, 1),
        ("of_the_experiment", "Events that name this experiment, or no experiment.", 2, 1),
        ("after_exposure", "Events at or after the second of the exposure.", 2, 1),
        ("in_the_window", "Events at least 1 hour after the exposure, and less than 2 hours after it.", 1, 1),
        ("before_the_stop", "Events not after the stop at 2026-02-03T12:00:00.000000Z.", 1, 1),
        ("of_the_currency", "Events in the currency EUR.", 1, 1),
        ("with_the_value", "Events with a number as revenue.", 1, 1),
        ("counted", "All of these events count.", 1, 1),
    ]
    del explained["steps"]
    assert explained == {
        "users": 1,
        "cap": None,
        "cappedUsers": 0,
        "sum": 5,
        "denominatorSteps": None,
        "denominatorSum": None,
        "strata": None,
        "value": 5,
    }


def test_explanation__of_a_delay_without_an_end__says_from_when_on(production: Environment) -> None:
    steps = explain(make_experiment(DEFINITIONS["count"]), 0, "green", now=LATER)["steps"]
    [described] = [step["description"] for step in steps if step["name"] == "in_the_window"]
    assert described == "Events at least 2 hours after the exposure."


@pytest.mark.parametrize("kind", DEFINITIONS)
def test_explanation__nobody_exposed__has_no_value(production: Environment, kind: str) -> None:
    explained = explain(make_experiment(DEFINITIONS[kind]), 0, "green", now=LATER)
    assert (explained["users"], explained["value"], explained["sum"], explained["cappedUsers"]) == (0, None, 0, 0)
    assert all((step["rows"], step["users"]) == (0, 0) for step in explained["steps"])


def test_explanation__numbers_beyond_the_range__count_as_the_largest(production: Environment) -> None:
    experiment = make_experiment(DEFINITIONS["sum"])
    expose({"u": ("green", NOON), "v": ("green", NOON), "w": ("control", NOON)}, production)
    record(
        [make_event("u", 1, amount=1e300), make_event("v", 1, amount=-1e300), make_event("w", 1, amount=-1e300)],
        production,
    )

    assert explain(experiment, 0, "green", now=LATER)["sum"] == 0
    assert explain(experiment, 0, "control", now=LATER)["sum"] == -1e100


@pytest.mark.parametrize("name", ['with "quotes"', "with.dots", "with \\ and $[0]", "ünï"])
def test_explanation__property_of_any_name__is_that_of_exactly_this_name(production: Environment, name: str) -> None:
    experiment = make_experiment(Definition("m", 1, "sum", Quantity("buy", name)))
    expose({"u": ("green", NOON)}, production)
    record([make_event("u", 1, **{name: 3, "with": {"dots": 9}, "amount": 9})], production)

    assert explain(experiment, 0, "green", now=LATER)["sum"] == 3


def test_explanation__of_a_metric__takes_five_statements_at_most(
    production: Environment, django_assert_max_num_queries: Any
) -> None:
    for kind, definition in DEFINITIONS.items():
        experiment = make_experiment(definition, key=kind.replace(" ", "-").replace(",", ""))
        with django_assert_max_num_queries(5):  # events, counts, exposures, and those of a denominator, or the cap
            explain(experiment, 0, "green", now=LATER)


def test_explanation__of_everything__has_each_metric_and_variant(production: Environment) -> None:
    experiment = make_experiment(DEFINITIONS["count"], DEFINITIONS["ratio"])
    by_metric = explain_all(experiment, LATER)
    assert {metric_index: list(variants) for metric_index, variants in by_metric.items()} == {
        "0": ["control", "green"],
        "1": ["control", "green"],
    }
    assert by_metric["1"]["green"] == explain(experiment, 1, "green", now=LATER)


@pytest.mark.parametrize("is_stopped", [False, True])
@pytest.mark.parametrize("kind", DEFINITIONS)
def test_explanation__random_history__is_what_counting_by_hand_gives(
    production: Environment, kind: str, is_stopped: bool
) -> None:
    chance = random.Random(f"{kind} {is_stopped}")
    experiment = make_experiment(DEFINITIONS[kind], stopped=is_stopped)
    exposures = {
        f"user-{number}": (chance.choice(["control", "green"]), NOON + timedelta(seconds=chance.randrange(200_000) / 2))
        for number in range(20)
    }
    expose(exposures, production)
    history = [random_event(chance) for _ in range(400)]
    record(history, production)

    for variant in experiment.variant_keys:
        by_hand = ByHand(experiment, DEFINITIONS[kind], exposures, history)
        assert explain(experiment, 0, variant, now=READ_AT) == by_hand.explain(variant)


Exposures = dict[str, tuple[str, datetime]]


class ByHand:
    """The explanation of a metric, computed from the events one by one."""

    def __init__(
        self, experiment: Experiment, definition: Definition, exposures: Exposures, history: Sequence[NewEvent]
    ) -> None:
        self.stop = experiment.stopped_at or datetime.max.replace(tzinfo=NOON.tzinfo)
        self.is_stopped = experiment.stopped_at is not None
        self.own = (None, experiment.key, str(experiment.pk))
        self.definition, self.exposures, self.history = definition, exposures, history

    def explain(self, variant: str) -> dict[str, Any]:
        of = self.definition
        exposed = [user for user, (key, _) in self.exposures.items() if key == variant]
        mature = [user for user in exposed if self.is_mature(user)]
        cap = of.cap_value
        if of.cap_percentile:
            everyone = sorted(y for user in self.exposures if (y := self.y(user, of.quantity)))
            cap = next(y for rank, y in enumerate(everyone, 1) if rank / len(everyone) >= of.cap_percentile / 100)
        values = [self.y(user, of.quantity) for user in mature]
        total = sum(min(value, cap or value) for value in values)
        below = of.denominator and sum(self.y(user, of.denominator) for user in mature)
        divisor = len(mature) if below is None else below
        value = (total / divisor if divisor else None) if of.quantile is None else self.quantile(mature)
        return {
            "users": len(mature),
            "steps": self.steps(exposed, of.quantity),
            "cap": cap,
            "cappedUsers": sum(value > (cap or value) for value in values),
            "sum": pytest.approx(total),
            "denominatorSteps": self.steps(exposed, of.denominator) if of.denominator else None,
            "denominatorSum": below,
            "strata": None,
            "value": pytest.approx(value),
        }

    def quantile(self, mature: list[str]) -> float:
        everyone = [self.amounts(user, self.definition.quantity) for user in self.exposures if self.is_mature(user)]
        different = sorted({amount for amounts in everyone for amount in amounts})
        of_variant = [self.amounts(user, self.definition.quantity) for user in mature]
        assert self.definition.quantile is not None
        return cast(float, quantile_by_hand(of_variant, different, self.definition.quantile).value)

    def is_mature(self, user: str) -> bool:
        span, exposed_at = self.definition.span, self.exposures[user][1].replace(microsecond=0)
        return span is None or exposed_at + span <= min(self.stop, READ_AT)

    def counted(self, user: str, quantity: Quantity) -> list[NewEvent]:
        holds = [holds for name, holds in self.conditions(quantity) if name != "by_mature_users"]
        named = [event for event in self.history if event.user_id == user and event.name in self.names(quantity)]
        return [event for event in named if all(condition([user], event) for condition in holds)]

    def names(self, quantity: Quantity) -> list[str]:
        return [step.event for step in self.definition.steps] or [quantity.event]

    def amounts(self, user: str, quantity: Quantity) -> list[float]:
        return [event.properties[quantity.property] for event in self.counted(user, quantity)]

    def y(self, user: str, quantity: Quantity) -> float:
        events, of = self.counted(user, quantity), self.definition
        if of.type == "funnel":
            return float(self.steps_passed(user, events) == len(of.steps))
        if of.is_share:
            return float(bool(events))
        if of.type == "distinct" and not quantity.property:
            return len({event.counted_at.date() for event in events})
        if not quantity.property:
            return len(events)
        numbers = self.amounts(user, quantity)
        if of.type == "distinct":
            return len({(isinstance(value, bool), value) for value in numbers})
        return (fmean(numbers) if numbers else 0) if of.type == "mean" else sum(numbers)

    def steps_passed(self, user: str, events: Sequence[NewEvent]) -> int:
        of_user = [event for event in events if event.user_id == user]
        moments = [(event.name, event.counted_at, event.properties) for event in of_user]
        return count_steps_passed(self.definition.steps, moments)

    def steps(self, exposed: list[str], quantity: Quantity) -> list[dict[str, Any]]:
        left = [event for event in self.history if event.name in self.names(quantity)]
        steps = [("events_of_the_name", left)]
        for name, holds in self.conditions(quantity):
            left = [event for event in left if holds(exposed, event)]
            steps.append((name, left))
        for number in range(1, len(self.definition.steps) + 1):
            through = {user for user in exposed if self.steps_passed(user, left) >= number}
            steps.append(("passed_the_step", [event for event in left if event.user_id in through]))
        return [
            {"name": name, "description": ANY, "rows": len(left), "users": len({event.user_id for event in left})}
            for name, left in [*steps, ("counted", steps[-1][1])]
        ]

    def conditions(self, quantity: Quantity) -> list[tuple[str, Callable[[list[str], NewEvent], bool]]]:
        of = self.definition
        kinds = (int, float, str, bool) if of.type == "distinct" else (int, float)
        named: dict[str, tuple[Any, Callable[[list[str], NewEvent], bool]]] = {
            "by_exposed_users": (True, lambda exposed, event: event.user_id in exposed),
            "by_mature_users": (of.window, lambda _, event: self.is_mature(event.user_id)),
            "of_the_experiment": (True, lambda _, event: event.properties.get("experimentId") in self.own),
            "after_exposure": (True, lambda _, event: self.since(event) >= timedelta(0)),
            "in_the_window": (of.delay or of.window, lambda _, event: self.is_in_window(event)),
            "before_the_stop": (self.is_stopped, lambda _, event: event.counted_at <= self.stop),
            "with_the_properties": (
                quantity.where or of.steps,
                lambda _, event: any(is_of(step, event.name, event.properties) for step in of.steps or [quantity]),
            ),
            "of_the_currency": (
                quantity.currency,
                lambda _, event: event.properties.get("currency", "").upper() == quantity.currency,
            ),
            "with_the_value": (
                quantity.property,
                lambda _, event: type(event.properties.get(quantity.property)) in kinds,
            ),
        }
        return [(name, holds) for name, (is_asked, holds) in named.items() if is_asked]

    def since(self, event: NewEvent) -> timedelta:
        return event.counted_at - self.exposures[event.user_id][1].replace(microsecond=0)

    def is_in_window(self, event: NewEvent) -> bool:
        window = timedelta.max if self.definition.window is None else self.definition.window
        return timedelta(0) <= self.since(event) - self.definition.delay < window


def make_experiment(*definitions: Definition, stopped: bool = False, key: str = "e") -> Experiment:
    """Create an experiment with these metrics that started at NOON. If `stopped`, it ended three days later."""
    times = {"started_at": NOON, **({"stopped_at": NOON + timedelta(days=3)} if stopped else {})}
    experiment = ExperimentFactory(key=key, metrics=[f"metric {number}" for number in range(len(definitions))], **times)
    experiment.definitions = [definition.as_json() for definition in definitions]
    experiment.save(update_fields=["definitions"])
    return experiment


def expose(exposures: Exposures, environment: Environment) -> None:
    record(
        [
            NewEvent(new_id(), user, "exposed", at, at, {"experimentId": "e", "variant": variant})
            for user, (variant, at) in exposures.items()
        ],
        environment,
    )


def make_event(user: str, hours: float, name: str = "buy", *, late: float = 0, **properties: Any) -> NewEvent:
    at = NOON + timedelta(hours=hours)
    return NewEvent(new_id(), user, name, at, at + timedelta(hours=late), properties)


def random_event(chance: random.Random) -> NewEvent:
    properties: dict[str, Any] = chance.choice([{}, {}, {"experimentId": "e"}, {"experimentId": "other"}])
    properties = properties | {
        "revenue": chance.randrange(-5, 60) / 4,
        "currency": chance.choice(["EUR", "eur", "CHF"]),
    }
    properties["amount"] = chance.choice([chance.randrange(9), 2.5, "3", True, None, [4]])
    moment, late = chance.randrange(-100, 10_000) / 100, chance.choice([0, 0, 5, -3])
    return make_event(
        f"user-{chance.randrange(24)}", moment, chance.choice(["buy", "buy", "look"]), late=late, **properties
    )


def test_explanation__whole_numbers_beyond_64_bits_together__add_up(production: Environment) -> None:
    experiment = make_experiment(Definition("metric 0", 1, "sum", Quantity("buy", "amount")))
    expose({"u": ("green", NOON)}, production)
    record([make_event("u", 1, amount=2**63 - 1), make_event("u", 2, amount=2**63 - 1)], production)

    assert explain(experiment, 0, "green", now=LATER)["sum"] == pytest.approx(2.0**64)


def test_explanation__percentile_cap_below_0__is_none_as_in_results(production: Environment) -> None:
    spent = Definition("metric 0", 1, "sum", Quantity("buy", "amount"), cap_percentile=60)
    experiment = make_experiment(spent)
    expose({"u": ("green", NOON)}, production)
    record([make_event("u", 1, amount=-5)], production)

    explained = explain(experiment, 0, "green", now=LATER)
    assert (explained["cap"], explained["sum"]) == (None, -5)
