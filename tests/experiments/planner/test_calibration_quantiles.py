"""Calibration of quantiles: which events count, and that their tests keep their promise."""

from __future__ import annotations

import random
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from events.recording import NewEvent, new_id, record
from experiments.exposures.recording import assign
from experiments.metrics.changes import create_metric
from experiments.metrics.definition import definitions_of
from experiments.models import Experiment
from experiments.planner.calibration import DrawnUsers, calibrate
from experiments.results.refresh import refresh
from tests.conftest import ACTOR, NOON
from tests.factories import EventFactory, ExperimentFactory

pytestmark = pytest.mark.django_db

MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)


def define(key: str, **values: Any) -> None:
    create_metric(
        **{"key": key, "type": "quantile", "event": "page", "property": "ms", "quantile": 0.75, "actor": ACTOR},
        now=NOON,
        **values,
    )


def view(user_id: str, at: timedelta, **properties: Any) -> None:
    EventFactory(name="page", user_id=user_id, timestamp=NOON + at, properties=properties)


def test_read_values__any__are_those_that_the_totals_count() -> None:
    define("all")
    define("soon", window_hours=24, delay_hours=1, where=[{"property": "path", "operator": "equals", "value": "/"}])
    experiment = ExperimentFactory(key="e", metrics=["all", "soon"], running=True, stopped_at=NOON + 3 * DAY)
    other = ExperimentFactory(key="other", running=True)
    for user_id in ("u", "v"):
        assign(experiment.pk, user_id, "green", NOON + timedelta(seconds=10.5))
    for hours in (-2, 0, 1, 2, 24, 25, 26, 71, 73):
        view("u", timedelta(hours=hours, seconds=10.2), ms=hours, path="/")
        view("v", timedelta(hours=hours, seconds=11), ms=hours, path="/x")
    view("nobody", 2 * DAY, ms=9)
    view("u", DAY, ms="9", path="/")
    view("u", DAY, path="/")
    view("u", DAY, ms=True, path="/")
    view("u", 2 * DAY, ms=7, experimentId="e")
    view("u", 2 * DAY, ms=8, experimentId=other.key)
    refresh(experiment, NOON + 3 * DAY)

    drawn, found = DrawnUsers(experiment, 10), {}
    for metric_index, definition in enumerate(definitions_of(experiment)):
        users, events = [*drawn.read(metric_index)], [*drawn.read_values(metric_index)]
        numbers = Counter(user_id for user_id, _ in events)
        assert {user_id: numbers[user_id] for user_id, *_ in users} == {user_id: y for user_id, _, y, *_ in users}
        found[definition.key] = sorted(value for user_id, value in events if user_id == "u")
    assert found == {"all": [0, 1, 2, 7, 24, 25, 26, 71], "soon": [1, 2, 24]}


@pytest.fixture(params=[0.001, 100.0])
def experiment(request: pytest.FixtureRequest) -> Experiment:
    """300 users with some pages each, whose times resemble each other; the guardrail is the same quantile.

    The times are rounded: they are different, or have a few values that many pages share.
    """
    define("slow")
    define("slow-guard", role="guardrail", direction="decrease", margin=0.9)
    experiment = ExperimentFactory(key="e", metrics=["slow", "slow-guard"], running=True)
    chance, pages = random.Random(5), []
    for number in range(300):
        assign(experiment.pk, f"user-{number}", "control", NOON + number * MINUTE)
        usual = chance.lognormvariate(5, 0.5)
        for page in range(chance.randrange(4)):
            ms = request.param * round(usual * chance.uniform(0.8, 1.2) / request.param)
            at = NOON + (number + page + 1) * MINUTE
            pages.append(NewEvent(new_id(), f"user-{number}", "page", at, NOON + DAY / 4, {"ms": ms}))
    record(pages, experiment.environment)
    return experiment


def test_calibrate__quantile_of_different_or_tied_values__seldom_finds_a_difference(experiment: Experiment) -> None:
    found = calibrate(experiment, now=NOON + DAY, rounds=200, looks=4)
    [goal, guard] = found.simulation.errors
    assert (goal.comparison.measure, guard.comparison.measure) == ("slow", "slow-guard")
    assert goal.splits == 200
    assert goal.looks == guard.looks
    assert goal.looks[-1].always_valid <= 0.05
    assert goal.lifts[-1].always_valid <= 0.05
    assert 0 < goal.looks[-1].fixed_horizon < 0.4
    assert goal.fixed_horizon_coverage > 0.85
    [rates] = found.guardrails
    assert rates.harmed <= 0.05
    assert rates.safe > 0.5
    assert rates.safe_at_margin is not None
    assert rates.safe_at_margin <= 0.05
    assert [outcome.definition.key for outcome in found.outcomes()] == ["slow", "slow-guard"]


def test_calibrate__more_users_than_it_may_read__splits_those_that_are_drawn(experiment: Experiment) -> None:
    found = calibrate(experiment, now=NOON + DAY, rounds=2, looks=2, most_users=200)
    assert found.exposed == 300
    assert 150 < found.users < 250
    assert found.simulation.sample_ratio[-1].users == found.users
