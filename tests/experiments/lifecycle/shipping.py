"""Helpers for tests of decisions: an experiment that drives a flag, its users, and what a decision writes."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from config.models import Change, Environment
from events.recording import NewEvent, new_id, record
from experiments.lifecycle.changes import get_experiment
from experiments.models import Experiment, ResultState
from flags.changes.flag_changes import get_flag
from tests.conftest import ACTOR, NOON
from tests.factories import ExperimentFactory, FlagFactory

A_DAY_LATER = NOON + timedelta(days=1)
OWN = [{"type": "percentage", "percentage": 20}]
SERVES = {"control": False, "green": True}


def step_arguments(environment: Environment, **values: Any) -> dict[str, Any]:
    """Return the arguments of a step that ends the experiment a day after its start."""
    return {"key": "e", "environment": environment, "actor": ACTOR, "now": A_DAY_LATER, **values}


def run_experiment(environment: Environment, **values: Any) -> Experiment:
    """Create a running experiment that drives a flag which has a rule of its own."""
    FlagFactory(key="button", enabled=True, rules=OWN, environment=environment)
    flag = {"key": "button", "serves": SERVES}
    experiment: Experiment = ExperimentFactory(
        key="e", environment=environment, **{"flag": flag, "minimum_days": 0, **values}, running=True
    )
    return experiment


def record_visits(environment: Environment, variant: str, number: int, buyers: int, *, event: str = "purchase") -> None:
    """Record `number` users who see a variant; the first `buyers` do something afterwards."""
    record(list(_events(variant, number, buyers, event)), environment)


def record_clear_winner(environment: Environment, better: str = "green") -> None:
    """Record users so that one of the variants is clearly better."""
    for variant in ("control", "green"):
        record_visits(environment, variant, 150, 120 if variant == better else 30)


def _events(variant: str, number: int, buyers: int, event: str) -> Iterator[NewEvent]:
    for index in range(number):
        user = f"{variant}-{index}"
        yield event_at(user, "seen", 1, experimentId="e", variant=variant)
        if index < buyers:
            yield event_at(user, event, 2)


def event_at(user: str, name: str, minute: float, **properties: str) -> NewEvent:
    moment = NOON + timedelta(minutes=minute)
    return NewEvent(new_id(), user, name, moment, moment, properties)


def flag_rules(environment: Environment) -> list[Any]:
    return get_flag("button", environment).rules


def stored_state(environment: Environment) -> tuple[Any, ...]:
    """Return everything that a decision writes, to compare it before and after."""
    experiment = get_experiment("e", environment)
    columns = (experiment.status, experiment.stopped_at, experiment.frozen_at, experiment.winner, experiment.decision)
    result_states = list(ResultState.objects.values_list("stopped_at", "archive"))
    exposures = sorted(experiment.exposures.values_list("user_id", "variant", "exposed_at"))
    driven = get_flag(experiment.flag["key"], environment).rules if experiment.flag else None
    return (columns, result_states, exposures, driven, Change.objects.latest_revision())
