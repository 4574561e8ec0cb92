"""The objections to shipping a variant."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any

import pytest

from config.models import Environment
from events.recording import NewEvent, new_id, record
from experiments.lifecycle.changes import get_experiment, update_experiment
from experiments.lifecycle.objections import Objection, find_objections
from experiments.metrics.changes import create_metric
from experiments.results.analyse import analyse_experiment
from tests.conftest import ACTOR, NOON
from tests.experiments.lifecycle.shipping import record_clear_winner, record_visits
from tests.factories import ExperimentFactory

pytestmark = pytest.mark.django_db


def objections(environment: Environment, winner: str, at: datetime = NOON) -> list[Objection]:
    return find_objections(analyse_experiment(get_experiment("e", environment), at), winner, at)


def causes(environment: Environment, winner: str) -> list[str]:
    return [str(objection.cause) for objection in objections(environment, winner)]


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
    create_metric(key="calls", **values, actor=ACTOR, now=NOON)
    ExperimentFactory(key="e", metrics=["purchase", "calls"], minimum_days=0, running=True)
    record_clear_winner(production)
    record_visits(production, "green", 150, 140, event="call")

    assert causes(production, variant) == expected


@pytest.mark.parametrize(("planned", "expected"), [(300, []), (301, ["planned_size_not_reached"]), (None, [])])
def test_objections__planned_size__has_to_be_reached_exactly(
    production: Environment, planned: int | None, expected: list[str]
) -> None:
    ExperimentFactory(key="e", planned_size=planned, minimum_days=0, running=True)
    record_clear_winner(production)

    assert causes(production, "green") == expected


def test_objections__no_goal_among_the_metrics__is_never_the_verdict(production: Environment) -> None:
    ExperimentFactory(key="e", metrics=[], minimum_days=0, running=True)

    assert causes(production, "green") == ["not_the_verdict"]


def test_objections__guardrail_without_enough_users__is_named_with_those_that_it_needs(
    production: Environment,
) -> None:
    create_metric(key="calls", type="conversion", event="call", role="guardrail", actor=ACTOR, now=NOON)
    ExperimentFactory(key="e", metrics=["purchase", "calls"], minimum_days=0, running=True)
    record_clear_winner(production)
    for variant in ("control", "green"):
        record_visits(production, variant, 150, 12, event="call")

    undecided, verdict = objections(production, "green")
    assert (undecided.cause, verdict.cause) == ("guardrail_undecided", "not_the_verdict")
    assert re.fullmatch(
        r"the guardrail calls is not shown safe yet; it needs about [\d,]+ more users", undecided.message
    )
    assert "guardrail_undecided" not in causes(production, "control")


def test_objections__to_few_mature_users__name_them_as_such(production: Environment) -> None:
    create_metric(key="bought", type="conversion", event="purchase", window_hours=1, actor=ACTOR, now=NOON)
    ExperimentFactory(key="e", metrics=["bought"], planned_size=1_000, minimum_days=0, running=True)
    record_clear_winner(production)

    [size] = objections(production, "green", NOON + timedelta(days=1))
    assert size.message == "the results cover 300 mature users of the 1,000 that are planned"


def test_objections__guardrail_that_was_added_after_the_start__speaks_against_nothing(
    production: Environment,
) -> None:
    create_metric(key="calls", type="conversion", event="call", role="guardrail", actor=ACTOR, now=NOON)
    ExperimentFactory(key="e", minimum_days=0, running=True)
    changes = {"metrics": ["purchase", "calls"]}
    update_experiment(key="e", environment=production, changes=changes, actor=ACTOR, now=NOON)
    record_clear_winner(production)
    for variant in ("control", "green"):
        record_visits(production, variant, 150, 12, event="call")

    assert causes(production, "green") == []


@pytest.mark.parametrize(
    ("days", "expected"),
    [
        (0, "the shortest run is not over before 7 more days"),
        (6.5, "the shortest run is not over before 1 more day"),
        (7, None),
    ],
)
def test_objections__shortest_run__counts_the_days_until_it_is_over(
    production: Environment, days: float, expected: str | None
) -> None:
    ExperimentFactory(key="e", running=True)
    record_clear_winner(production)

    found = objections(production, "green", NOON + timedelta(days=days))
    messages = [objection.message for objection in found if objection.cause == "shortest_run_not_over"]
    assert messages == ([expected] if expected else [])


def test_objections__shortest_run_and_the_control_is_better__keeping_the_control_needs_no_reason(
    production: Environment,
) -> None:
    ExperimentFactory(key="e", running=True)
    record_clear_winner(production, better="control")

    assert causes(production, "control") == []
    assert "shortest_run_not_over" in causes(production, "green")


def test_objections__reservations_of_the_verdict__are_objections_to_its_winner(production: Environment) -> None:
    create_metric(key="bought", type="conversion", event="purchase", window_hours=1, actor=ACTOR, now=NOON)
    create_metric(key="visits", type="conversion", event="visit", actor=ACTOR, now=NOON)
    ExperimentFactory(key="e", metrics=["bought", "visits"], minimum_days=0, running=True)
    record_clear_winner(production)
    for variant, visitors in (("control", 120), ("green", 30)):
        record_visits(production, variant, 150, visitors, event="visit")
    later = NOON + timedelta(minutes=90)
    newcomer = NewEvent(new_id(), "new", "seen", later, later, {"experimentId": "e", "variant": "green"})
    record([newcomer], production)

    worse, waiting = objections(production, "green", later)
    assert (worse.cause, waiting.cause) == ("goal_worse", "users_waiting")
    assert worse.message.startswith("visits of green is 60.")
    assert worse.message.endswith(": this goal is worse")
    assert waiting.message == "bought: it cuts off the windows of 1 of 301 users"
    assert [str(one.cause) for one in objections(production, "control", later)] == ["not_the_verdict", "users_waiting"]


def test_objections__treatment_as_good_as_the_winner__is_named(production: Environment) -> None:
    variants = [{"key": key, "weight": 1} for key in ("control", "green", "blue")]
    ExperimentFactory(key="e", variants=variants, minimum_days=0, running=True)
    record_clear_winner(production)
    record_visits(production, "blue", 150, 118)

    [alike] = objections(production, "green")
    assert alike.cause == "not_distinguishable"
    assert alike.message == ("purchase of green is not shown to differ from that of blue: any of them may be the best")
