"""The objections to shipping a variant."""

from __future__ import annotations

from typing import Any

import pytest

from config.models import Environment
from experiments.lifecycle.changes import get_experiment
from experiments.lifecycle.objections import find_objections
from experiments.metrics.changes import create_metric
from experiments.results.computing import analyse_experiment
from tests.conftest import ACTOR, NOON
from tests.experiments.lifecycle.shipping import record_clear_winner, record_visits
from tests.factories import ExperimentFactory

pytestmark = pytest.mark.django_db


def causes(environment: Environment, winner: str) -> list[str]:
    results = analyse_experiment(get_experiment("e", environment), NOON)
    return [str(objection.cause) for objection in find_objections(results, winner)]


@pytest.mark.parametrize(
    ("direction", "variant", "expected"),
    [
        ("decrease", "green", ["guardrail_harmed", "not_the_verdict"]),
        ("increase", "green", []),
        ("decrease", "control", []),
    ],
)
def test_objections__guardrail_that_rises__speaks_against_the_treatment_where_less_is_better(
    production: Environment, direction: str, variant: str, expected: list[str]
) -> None:
    values: dict[str, Any] = {"type": "conversion", "event": "call", "direction": direction, "role": "guardrail"}
    create_metric(key="calls", **values, actor=ACTOR, at=NOON)
    ExperimentFactory(key="e", metrics=["purchase", "calls"], running=True)
    record_clear_winner(production)
    record_visits(production, "green", 150, 140, event="call")

    assert causes(production, variant) == expected


@pytest.mark.parametrize(("planned", "expected"), [(300, []), (301, ["planned_size_not_reached"]), (None, [])])
def test_objections__planned_size__has_to_be_reached_exactly(
    production: Environment, planned: int | None, expected: list[str]
) -> None:
    ExperimentFactory(key="e", planned_size=planned, running=True)
    record_clear_winner(production)

    assert causes(production, "green") == expected


def test_objections__no_goal_among_the_metrics__is_never_the_verdict(production: Environment) -> None:
    ExperimentFactory(key="e", metrics=[], running=True)

    assert causes(production, "green") == ["not_the_verdict"]
