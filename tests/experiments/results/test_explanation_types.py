"""Explanations of conditions, funnels, distinct values and quantiles arrive at the values of the results."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

import pytest
import time_machine

from config.models import Environment
from config.timestamps import format_timestamp
from events.recording import NewEvent, new_id, record
from experiments.lifecycle.changes import stop_experiment
from experiments.metrics.changes import create_metric
from experiments.results.archive import freeze
from tests.conftest import ACTOR, NOON
from tests.experiments.results.asking import PATH, ask
from tests.factories import ExperimentFactory

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)
NOW = NOON + 90 * HOUR
PRO = [{"property": "plan", "operator": "in", "value": ["pro", "team"]}]
LONG = [{"property": "ms", "operator": "greaterThan", "value": 40}]
STEPS = [{"event": "look", "where": PRO}, {"event": "basket"}, {"event": "look", "where": LONG}]
METRICS: dict[str, dict[str, Any]] = {
    "pro": {"type": "conversion", "event": "look", "where": PRO, "window_hours": 24},
    "long": {"type": "count", "event": "look", "where": [*PRO, *LONG], "cap_percentile": 80.0},
    "spent": {"type": "revenue", "event": "look", "currency": "EUR", "where": PRO},
    "rate": {"type": "ratio", "event": "basket", "denominator": {"event": "look", "where": LONG}},
    "through": {"type": "funnel", "steps": STEPS, "window_hours": 30},
    "plans": {"type": "distinct", "event": "look", "property": "plan"},
    "days": {"type": "distinct", "event": "look"},
    "slow": {"type": "quantile", "event": "look", "property": "ms", "quantile": 0.9},
}


def random_events() -> list[NewEvent]:
    chance, events = random.Random(8), []
    for number in range(60):
        user, at = f"user-{number}", NOON + chance.randrange(6000) * timedelta(seconds=31)
        variant = ("control", "green")[number % 2]
        events.append(NewEvent(new_id(), user, "exposed", at, at, {"experimentId": "shop", "variant": variant}))
        for _ in range(chance.randrange(30)):
            moment = min(NOW, at + chance.randrange(-10, 400) * timedelta(minutes=9))
            properties = {
                "plan": chance.choice(["pro", "team", "free", 1, 1.0, True, None, ["pro"]]),
                "ms": chance.choice([chance.randrange(100), chance.random() * 100, "7", False]),
                "revenue": chance.randrange(90) / 4,
                "currency": chance.choice(["EUR", "eur", "CHF"]),
            }
            events.append(NewEvent(new_id(), user, chance.choice(["look", "basket"]), moment, moment, properties))
    return events


@pytest.fixture
def shop(production: Environment) -> Any:
    with time_machine.travel(NOW, tick=False):
        for key, values in METRICS.items():
            create_metric(key=key, actor=ACTOR, now=NOON, **values)
        design = {"metrics": list(METRICS), "lookback_days": 0, "minimum_days": 0}
        ExperimentFactory(key="shop", environment=production, running=True, **design)
        record(random_events(), production)
        yield


def explain(api: Any, metric: str, variant: str = "green") -> Any:
    return ask(api, f"{PATH}/explain", metric=metric, variant=variant)


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize("key", METRICS)
def test_explanation__of_any_type__arrives_at_the_value_of_the_results(api: Any, key: str) -> None:
    [metric] = ask(api, metric=key)["metrics"]
    for figures in metric["variants"]:
        explained = explain(api, key, figures["key"])
        assert figures["value"]
        assert explained["value"] == pytest.approx(figures["value"])
        assert (explained["users"], explained["cap"]) == (figures["matureUsers"], metric["cap"])
        rows = [step["rows"] for step in explained["steps"]]
        assert rows == sorted(rows, reverse=True)


@pytest.mark.usefixtures("shop")
def test_explanation__of_a_funnel__has_the_users_of_each_step(api: Any) -> None:
    [metric] = ask(api, metric="through")["metrics"]
    steps = explain(api, "through")["steps"]
    assert steps[0]["description"] == "Events named look or basket in the environment."
    passed = [step for step in steps if step["name"] == "passed_the_step"]
    assert [step["users"] for step in passed] == [step["users"] for step in metric["variants"][1]["steps"]]
    assert passed[1]["description"] == "By users who passed step 2, basket, and all steps before it in order."


@pytest.mark.usefixtures("shop")
def test_explanation__of_conditions__has_a_step_for_them(api: Any) -> None:
    explained = explain(api, "spent")
    assert [step["name"] for step in explained["steps"][-4:]] == [
        *("with_the_properties", "of_the_currency", "with_the_value", "counted")
    ]
    assert explained["sum"] == pytest.approx(explained["value"] * explained["users"])


@pytest.mark.usefixtures("shop")
def test_explanation__frozen__stays(api: Any, production: Environment) -> None:
    stopped = stop_experiment(key="shop", environment=production, actor=ACTOR, now=NOW, stopped_at=NOW)
    before = {key: explain(api, key)["value"] for key in METRICS}
    freeze(stopped, NOW + 72 * HOUR)
    assert {key: explain(api, key)["value"] for key in METRICS} == before


def test_explanation__of_a_fixed_analysis__is_as_of_its_reading(api: Any, production: Environment) -> None:
    design = {"metrics": ["look"], "lookback_days": 0, "planned_size": 20, "analysis": "fixed", "minimum_days": 0}
    ExperimentFactory(key="shop", environment=production, running=True, **design)
    events = []
    for number in range(40):
        user, at = f"user-{number}", NOON + number * HOUR
        report = {"experimentId": "shop", "variant": ("control", "green")[number % 2]}
        events.append(NewEvent(new_id(), user, "exposed", at, at, report))
        events += [NewEvent(new_id(), user, "look", at, at, {})] * (number % 3 == 0)
    record(events, production)
    with time_machine.travel(NOW, tick=False):
        figures, explained = ask(api)["metrics"][0]["variants"][1], explain(api, "look")
    assert (explained["users"], explained["value"]) == (10, pytest.approx(figures["value"]))
    [step] = [step for step in explained["steps"] if step["name"] == "before_the_stop"]
    assert step["description"] == f"Events not after the reading at {format_timestamp(NOON + 19 * HOUR)}."
