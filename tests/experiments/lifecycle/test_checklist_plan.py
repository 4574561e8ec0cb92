"""The checks of a plan: smallest effect, guardrails, shortest run and look-back."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from config.models import Environment
from events.recording import NewEvent, new_id, record
from experiments.lifecycle.checklist import Check, Level, check_experiment
from experiments.metrics.changes import create_metric
from experiments.models import Experiment
from experiments.planner.plan import plan
from experiments.planner.question import Question
from experiments.planner.words import describe_size
from tests.conftest import ACTOR, NOON
from tests.factories import ExperimentFactory

pytestmark = pytest.mark.django_db

NOW = NOON + timedelta(days=8)


def find(experiment: Experiment, check: Check, at: datetime = NOW) -> tuple[str, str]:
    """Return the status and the message of the only finding of this check."""
    [found] = [finding for finding in check_experiment(experiment, at) if finding.check is check]
    return found.status, found.message


@pytest.fixture
def history(production: Environment) -> None:
    """Record users of an earlier experiment, of whom a fifth bought and a tenth called."""
    ExperimentFactory(key="earlier", metrics=["purchase", "calls"], running=True)
    create_metric(key="calls", type="conversion", event="calls", role="guardrail", actor=ACTOR, now=NOON)
    ExperimentFactory(key="later", metrics=["purchase", "calls"], running=True)
    events = []
    for number in range(400):
        at = NOON + timedelta(minutes=number)
        for key in ("earlier", "later"):
            shown = {"experimentId": key, "variant": "control"}
            events.append(NewEvent(new_id(), f"user-{number}", "seen", at, at, shown))
        names = [name for name, each in (("purchase", 5), ("calls", 10)) if number % each == 0]
        events += [NewEvent(new_id(), f"user-{number}", name, at, at, {}) for name in names]
    record(events, production)


def needed(experiment: Experiment) -> Any:
    return plan(Question(experiment=experiment.key, mde=experiment.minimum_effect or 0.01), experiment.environment, NOW)


def test_minimum_effect__of_more_users_than_planned__is_a_warning(history: None) -> None:
    experiment = ExperimentFactory(key="e", planned_size=10_000, minimum_effect=0.05)
    size, with_window = needed(experiment).always_valid, needed(experiment).with_window
    users = size.users
    assert users > with_window.users > 10_000
    assert find(experiment, Check.MINIMUM_EFFECT) == (
        Level.WARNING,
        "The smallest effect of interest is 5 %: an increase of 5 % in purchase, from 20 % to 21 % of users, takes "
        f"{describe_size(size)} to find, but 10,000 are planned. Plan for more users, or a larger effect. "
        f"With a window, it would take {describe_size(with_window)}.",
    )

    enough = ExperimentFactory(key="enough", planned_size=users, minimum_effect=0.05)
    status, message = find(enough, Check.MINIMUM_EFFECT)
    assert (status, f"{users:,} are planned." in message) == (Level.OK, True)


def test_minimum_effect__of_a_fixed_analysis__takes_fewer_users(history: None) -> None:
    experiment = ExperimentFactory(key="e", planned_size=20_000, minimum_effect=0.1, analysis="fixed")
    sizes = needed(experiment)
    assert sizes.fixed_horizon.users < sizes.always_valid.users
    assert f"takes {sizes.fixed_horizon.users:,} users" in find(experiment, Check.MINIMUM_EFFECT)[1]


@pytest.mark.parametrize(
    ("design", "status", "words"),
    [
        ({}, Level.WARNING, "No smallest effect of interest is set"),
        ({"minimum_effect": 0.05}, Level.UNKNOWN, "The smallest effect of interest is 5 %. Without a planned size"),
        ({"minimum_effect": 0.05, "planned_size": 9}, Level.UNKNOWN, "The smallest effect of interest is 5 %. Past"),
        ({"minimum_effect": 0.05, "planned_size": 9, "metrics": []}, Level.UNKNOWN, "The smallest effect of"),
    ],
)
def test_minimum_effect__without_a_plan_or_past_data__is_not_known(
    design: dict[str, Any], status: str, words: str
) -> None:
    found, message = find(ExperimentFactory(**design), Check.MINIMUM_EFFECT)
    assert (found, message.startswith(words)) == (status, True)


def test_guardrails__with_too_few_planned_users__are_a_warning(history: None) -> None:
    few, many = (
        ExperimentFactory(key=f"of-{size}", metrics=["purchase", "calls"], planned_size=size)
        for size in (5_000, 2_000_000)
    )
    size = needed(few).guardrails[0].always_valid
    assert size.users > 5_000
    assert find(few, Check.GUARDRAILS) == (
        Level.WARNING,
        f"calls: showing it safe within its margin takes {describe_size(size)}, but 5,000 are planned. "
        "Plan for more users, or give it a wider margin; no variant is recommended before.",
    )
    assert find(many, Check.GUARDRAILS)[0] == Level.OK


def test_guardrails__of_a_primary_metric_without_past_data__are_planned_all_the_same(history: None) -> None:
    create_metric(key="new", type="conversion", event="new", actor=ACTOR, now=NOON)
    experiment = ExperimentFactory(metrics=["new", "calls"], planned_size=5_000)

    assert find(experiment, Check.GUARDRAILS)[0] == Level.WARNING


@pytest.mark.parametrize("planned", [None, 1_000])
def test_guardrails__without_a_planned_size_or_past_data__are_not_known(planned: int | None) -> None:
    create_metric(key="calls", type="conversion", event="calls", role="guardrail", actor=ACTOR, now=NOON)
    experiment = ExperimentFactory(metrics=["purchase", "calls"], planned_size=planned)

    assert find(experiment, Check.GUARDRAILS)[0] == Level.UNKNOWN
    assert find(ExperimentFactory(), Check.GUARDRAILS) == (Level.OK, "No metric is a guardrail.")


@pytest.mark.parametrize(
    ("days", "status", "words"),
    [
        (0, Level.WARNING, "No shortest run is set"),
        (1, Level.WARNING, "The experiment runs for at least 1 day, which"),
        (10, Level.WARNING, "The experiment runs for at least 10 days, which"),
        (14, Level.OK, "The experiment runs for at least 14 days."),
    ],
)
def test_shortest_run__of_whole_weeks__is_fine(days: int, status: str, words: str) -> None:
    found, message = find(ExperimentFactory(minimum_days=days), Check.SHORTEST_RUN)
    assert (found, message.startswith(words)) == (status, True)


@pytest.mark.parametrize(
    ("days", "ago", "status", "words"),
    [
        (28, 27, Level.OK, "purchase: 1 event in the 28 days of the look-back"),
        (7, 27, Level.WARNING, "purchase: no events in the 7 days of the look-back"),
        (0, 1, Level.OK, "The results are not adjusted"),
    ],
)
def test_lookback__looks_for_events_of_the_primary_metric(
    production: Environment, days: int, ago: int, status: str, words: str
) -> None:
    at = NOW - timedelta(days=ago)
    record([NewEvent(new_id(), "u", "purchase", at, at, {})], production)
    found, message = find(ExperimentFactory(lookback_days=days), Check.LOOKBACK)
    assert (found, message.startswith(words)) == (status, True)


def test_analysis__says_when_the_results_decide() -> None:
    fixed = ExperimentFactory(analysis="fixed", planned_size=9_000)
    status, message = find(fixed, Check.ANALYSIS)
    assert "9,000 users" in message
    assert (status, "purchase has no window" in message) == (Level.WARNING, True)
    create_metric(key="soon", type="conversion", event="purchase", window_hours=24, actor=ACTOR, now=NOON)
    with_window = ExperimentFactory(key="w", metrics=["soon"], analysis="fixed", planned_size=9_000)
    assert find(with_window, Check.ANALYSIS)[0] == Level.OK
    assert find(ExperimentFactory(), Check.ANALYSIS) == (Level.OK, "The results are safe to read every day.")
