"""Experiments with users enough to decide, on a flag, and what has become of both."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from config.models import Change, Environment
from events.recording.ingest import NewEvent, new_id, record
from experiments.lifecycle.changes import get_experiment
from experiments.models import AggregateState, Experiment
from flags.changes.flag_changes import get_flag
from tests.conftest import ACTOR, NOON
from tests.factories import ExperimentFactory, FlagFactory

A_DAY_LATER = NOON + timedelta(days=1)
OWN = [{"type": "percentage", "percentage": 20}]
SERVES = {"control": False, "green": True}


def who(environment: Environment, **values: Any) -> dict[str, Any]:
    """Whoever ends the experiment a day after its start."""
    return {"key": "e", "environment": environment, "actor": ACTOR, "at": A_DAY_LATER, **values}


def run(environment: Environment, **values: Any) -> Experiment:
    """A running experiment that drives a plain flag with a rule of its own."""
    FlagFactory(key="button", enabled=True, rules=OWN, environment=environment)
    flag = {"key": "button", "serves": SERVES}
    experiment: Experiment = ExperimentFactory(
        key="e", environment=environment, **{"flag": flag, **values}, running=True
    )
    return experiment


def visit(environment: Environment, variant: str, number: int, buyers: int, *, event: str = "purchase") -> None:
    """So many users see a variant, and the first of them do something afterwards."""
    record(list(_events(variant, number, buyers, event)), environment)


def convince(environment: Environment, better: str = "green") -> None:
    """Let green win by far, or lose."""
    for variant in ("control", "green"):
        visit(environment, variant, 150, 120 if variant == better else 30)


def _events(variant: str, number: int, buyers: int, event: str) -> Iterator[NewEvent]:
    for at in range(number):
        user = f"{variant}-{at}"
        yield happen(user, "seen", 1, experimentId="e", variant=variant)
        if at < buyers:
            yield happen(user, event, 2)


def happen(user: str, name: str, minute: float, **properties: str) -> NewEvent:
    moment = NOON + timedelta(minutes=minute)
    return NewEvent(new_id(), user, name, moment, moment, properties)


def rules(environment: Environment) -> list[Any]:
    return get_flag("button", environment).rules


def state(environment: Environment) -> tuple[Any, ...]:
    """All that a decision writes, for whoever wants to know that nothing has changed."""
    experiment = get_experiment("e", environment)
    columns = (experiment.status, experiment.stopped_at, experiment.frozen_at, experiment.winner, experiment.decision)
    folds = list(AggregateState.objects.values_list("stopped_at", "kept"))
    exposures = sorted(experiment.exposures.values_list("user_id", "variant", "exposed_at"))
    driven = get_flag(experiment.flag["key"], environment).rules if experiment.flag else None
    return (columns, folds, exposures, driven, Change.objects.latest_revision())
