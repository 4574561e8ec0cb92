"""The plan of an experiment: what a draft takes, what the start registers, and what stays changeable."""

from __future__ import annotations

from typing import Any

import pytest

from config.errors import DomainError, ValidationFailed
from config.models import Change, Environment
from experiments.lifecycle.changes import create_experiment, get_experiment, start_experiment, update_experiment
from experiments.models import Experiment
from tests.conftest import ACTOR, NOON
from tests.factories import ExperimentFactory

pytestmark = pytest.mark.django_db

EQUAL = [{"key": "a", "weight": 1}, {"key": "b", "weight": 1}, {"key": "c", "weight": 1}]
PLAN = {"planned_size": 30_000, "minimum_effect": 0.05, "analysis": "fixed", "minimum_days": 14, "lookback_days": 0}


@pytest.fixture
def step_arguments(production: Environment) -> dict[str, Any]:
    return {"key": "e", "environment": production, "actor": ACTOR, "now": NOON}


def change(step_arguments: dict[str, Any], **changes: Any) -> Experiment:
    return update_experiment(**step_arguments, changes=changes)


def test_create__with_a_plan__keeps_and_logs_it(step_arguments: dict[str, Any]) -> None:
    create_experiment(**step_arguments, variants=EQUAL, owner="Growth", hypothesis="Shorter is better.", **PLAN)

    stored = get_experiment("e", step_arguments["environment"])
    after = Change.objects.latest("revision").after
    assert {name: getattr(stored, name) for name in PLAN} == PLAN
    assert stored.tuning_size == 20_000
    assert after is not None
    expected = {
        **{"plannedSampleSize": 30_000, "minimumEffect": 0.05, "analysis": "fixed", "minimumDays": 14},
        **{"lookbackDays": 0, "owner": "Growth", "hypothesis": "Shorter is better.", "tuningSampleSize": 20_000},
    }
    assert {name: after[name] for name in expected} == expected


def test_create__without_a_plan__logs_no_defaults(step_arguments: dict[str, Any]) -> None:
    create_experiment(**step_arguments, variants=EQUAL)

    after = Change.objects.latest("revision").after or {}
    assert not {"minimumEffect", "analysis", "minimumDays", "lookbackDays", "owner", "hypothesis"} & after.keys()


@pytest.mark.parametrize(
    ("values", "field", "code"),
    [
        ({"analysis": "fixed"}, "plannedSampleSize", "required"),
        ({"analysis": "often"}, "analysis", "invalid_value"),
        ({"analysis": 3}, "analysis", "invalid_type"),
        ({"minimum_effect": 0}, "minimumEffect", "out_of_range"),
        ({"minimum_effect": -0.1}, "minimumEffect", "out_of_range"),
        ({"minimum_effect": 10.1}, "minimumEffect", "out_of_range"),
        ({"minimum_effect": float("nan")}, "minimumEffect", "out_of_range"),
        ({"minimum_effect": "5 %"}, "minimumEffect", "invalid_type"),
        ({"minimum_effect": True}, "minimumEffect", "invalid_type"),
        ({"minimum_days": 366}, "minimumDays", "out_of_range"),
        ({"minimum_days": -1}, "minimumDays", "out_of_range"),
        ({"minimum_days": 1.5}, "minimumDays", "invalid_type"),
        ({"lookback_days": 91}, "lookbackDays", "out_of_range"),
        ({"lookback_days": "28"}, "lookbackDays", "invalid_type"),
        ({"planned_size": 0}, "plannedSampleSize", "out_of_range"),
        ({"planned_size": 2.0}, "plannedSampleSize", "invalid_type"),
        ({"owner": "o" * 201}, "owner", "too_long"),
        ({"hypothesis": "h" * 2001}, "hypothesis", "too_long"),
        ({"hypothesis": 1}, "hypothesis", "invalid_type"),
    ],
)
def test_create__unacceptable_plan__names_the_field(
    step_arguments: dict[str, Any], values: dict[str, Any], field: str, code: str
) -> None:
    with pytest.raises(ValidationFailed) as refused:
        create_experiment(**step_arguments, variants=EQUAL, **values)

    assert [(detail.field, str(detail.code)) for detail in refused.value.details] == [(field, code)]


def test_update__null__resets_to_the_defaults(step_arguments: dict[str, Any]) -> None:
    ExperimentFactory(key="e", owner="Growth", hypothesis="Better.", given_tuning_size=700, **PLAN)
    names = {**PLAN, "owner": "", "hypothesis": "", "given_tuning_size": None}
    experiment = change(step_arguments, **dict.fromkeys(names))

    assert {name: getattr(experiment, name) for name in names} == {
        **{"planned_size": None, "minimum_effect": None, "analysis": "sequential", "minimum_days": 7},
        **{"lookback_days": 28, "owner": "", "hypothesis": "", "given_tuning_size": None},
    }
    assert experiment.tuning_size == 5_000


def test_update__planned_size_of_a_fixed_analysis__cannot_be_removed(step_arguments: dict[str, Any]) -> None:
    ExperimentFactory(key="e", **PLAN)
    with pytest.raises(ValidationFailed) as refused:
        change(step_arguments, planned_size=None)

    assert [detail.field for detail in refused.value.details] == ["plannedSampleSize"]


def test_update__weights_or_planned_size__move_a_derived_tuning_size(step_arguments: dict[str, Any]) -> None:
    ExperimentFactory(key="e", planned_size=9_000)

    assert change(step_arguments, variants=EQUAL).tuning_size == 6_000
    assert change(step_arguments, planned_size=12_000).tuning_size == 8_000
    assert change(step_arguments, given_tuning_size=500).tuning_size == 500
    assert change(step_arguments, planned_size=30_000).tuning_size == 500
    assert get_experiment("e", step_arguments["environment"]).tuning_size == 500


def test_update__derived_tuning_size_sent_back__stays_derived(step_arguments: dict[str, Any]) -> None:
    ExperimentFactory(key="e", planned_size=9_000)
    experiment = change(step_arguments, planned_size=20_000, given_tuning_size=9_000)

    assert (experiment.given_tuning_size, experiment.tuning_size) == (None, 20_000)


def test_start__registers_the_plan(step_arguments: dict[str, Any]) -> None:
    ExperimentFactory(key="e", **PLAN)
    Experiment.objects.update(tuning_size=5_000)  # as of a draft before sizes followed from plans
    experiment = start_experiment(**step_arguments)

    assert experiment.tuning_size == 30_000
    assert experiment.registration == {
        **{"primaryMetric": "purchase", "direction": "increase", "windowHours": None, "metrics": ["purchase"]},
        **{"plannedSampleSize": 30_000, "minimumEffect": 0.05, "analysis": "fixed", "minimumDays": 14},
        **{"lookbackDays": 0, "tuningSampleSize": 30_000},
    }


@pytest.mark.parametrize(
    "changes",
    [
        {"planned_size": 100},
        {"minimum_effect": 0.01},
        {"analysis": "sequential"},
        {"minimum_days": 0},
        {"lookback_days": 7},
        {"given_tuning_size": 100},
    ],
)
def test_update__plan_of_a_started_experiment__is_locked(
    step_arguments: dict[str, Any], changes: dict[str, Any]
) -> None:
    ExperimentFactory(key="e", running=True, **PLAN)
    with pytest.raises(DomainError) as refused:
        change(step_arguments, **changes)

    assert refused.value.code == "experiment_locked"


@pytest.mark.parametrize("status", ["running", "stopped"])
def test_update__owner_and_hypothesis__can_change_at_any_time(step_arguments: dict[str, Any], status: str) -> None:
    ExperimentFactory(key="e", **{status: True}, **PLAN)
    experiment = change(step_arguments, owner="Search", hypothesis="It is quicker.", **PLAN)

    assert (experiment.owner, experiment.hypothesis, experiment.tuning_size) == ("Search", "It is quicker.", 30_000)
