"""Testers see what is forced for them, and never count: not by what they see, report or did before."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from config.models import Environment
from events.recording import NewEvent, new_id, record
from experiments.exposures.recording import assign
from experiments.lifecycle.changes import create_experiment, start_experiment, stop_experiment, update_experiment
from experiments.models import Experiment, Exposure, UserValue
from experiments.results.analyse import VariantResult, compute_results
from experiments.results.archive import freeze
from experiments.results.check import check_sums
from experiments.results.forced_exposures import remove_all_forced_exposures
from experiments.results.refresh import refresh
from flags.changes.flag_changes import get_flag
from tests.conftest import ACTOR, NOON
from tests.factories import ExperimentFactory, FlagFactory

pytestmark = pytest.mark.django_db


def happen(user: str, name: str = "seen", second: float = 1, **properties: str) -> NewEvent:
    moment = NOON + timedelta(seconds=second)
    return NewEvent(new_id(), user, name, moment, moment, properties)


def see(user: str, variant: str = "green", second: float = 1) -> NewEvent:
    return happen(user, second=second, experimentId="e", variant=variant)


def force(environment: Environment, *users: str) -> Experiment:
    forced = dict.fromkeys(users, "control")
    return update_experiment(
        key="e", environment=environment, changes={"forced_variants": forced}, actor=ACTOR, now=NOON
    )


def exposed() -> set[str]:
    return set(Exposure.objects.values_list("user_id", flat=True))


def test_report__of_a_tester__is_no_exposure(production: Environment) -> None:
    ExperimentFactory(key="e", running=True, forced_variants={"qa": "green"})
    record([see("qa"), see("u")], production)

    assert exposed() == {"u"}


def test_report__of_a_tester_just_before_the_start__is_no_exposure(production: Environment) -> None:
    who = {"key": "e", "environment": production, "actor": ACTOR, "now": NOON}
    variants = [{"key": "control", "weight": 1}, {"key": "green", "weight": 1}]
    create_experiment(**who, variants=variants, forced_variants={"qa": "green"})
    record([see("qa", second=0.2), see("u", second=0.2)], production)
    start_experiment(**who, started_at=NOON + timedelta(seconds=0.7))

    assert exposed() == {"u"}


@pytest.mark.parametrize("state", [{"running": True}, {"stopped": True}])
@pytest.mark.parametrize("is_refreshed", [True, False])
def test_force__exposed_users__count_no_more(production: Environment, state: Any, is_refreshed: bool) -> None:
    experiment = ExperimentFactory(key="e", **state)
    for user in ("u", "v", "w"):
        record([see(user), happen(user, "purchase", second=2)], production)
    if is_refreshed:
        refresh(experiment, NOON)
    force(production, "u", "w", "never seen")

    assert exposed() == {"v"}
    assert not UserValue.objects.filter(user_id__in=["u", "w"]).exists()
    assert compute_results(experiment, NOON)["green"] == VariantResult(1, 1)


def test_force__with_another_metric_in_one_write__counts_the_others_by_all_metrics(production: Environment) -> None:
    experiment = ExperimentFactory(key="e", running=True)
    for user in ("u", "v"):
        record([see(user), happen(user, "purchase", second=2), happen(user, "sign_up", second=3)], production)
    refresh(experiment, NOON)
    changes = {"metrics": ["purchase", "sign_up"], "forced_variants": {"u": "control"}}
    experiment = update_experiment(key="e", environment=production, changes=changes, actor=ACTOR, now=NOON)

    assert check_sums(experiment, NOON) == []
    assert compute_results(experiment, NOON)["green"] == VariantResult(1, 1)


def test_force__no_more__counts_from_then_on(production: Environment) -> None:
    experiment = ExperimentFactory(key="e", running=True)
    record([see("u")], production)
    force(production, "u")
    force(production)
    record([see("u", "control", second=5)], production)

    found = compute_results(experiment, NOON)
    assert (found["control"], found["green"]) == (VariantResult(1, 0), VariantResult())


def test_force__frozen_experiment__stands_still(production: Environment) -> None:
    experiment = ExperimentFactory(key="e", stopped=True)
    record([see("u"), happen("u", "purchase", second=2)], production)
    freeze(experiment, NOON + timedelta(days=2))
    force(production, "u")

    assert compute_results(experiment, NOON + timedelta(days=3))["green"] == VariantResult(1, 1)


def test_force__experiment_that_drives_a_flag__has_the_flag_serve_the_same(production: Environment) -> None:
    FlagFactory(key="f", on=True)
    serves = {"control": False, "green": True}
    ExperimentFactory(key="e", running=True, flag={"key": "f", "serves": serves}, forced_variants={"qa": "green"})
    assert get_flag("f", production).rules[0]["forced"] == {"qa": "green"}
    force(production, "u")

    assert get_flag("f", production).rules[0]["forced"] == {"u": "control"}
    force(production)
    assert "forced" not in get_flag("f", production).rules[0]


def test_maintain__testers_recorded_while_they_became_so__are_left_out(production: Environment) -> None:
    experiment = ExperimentFactory(key="e", running=True)
    ExperimentFactory(key="other", running=True)
    force(production, "qa")
    assign(experiment.pk, "qa", "green", NOON)
    assign(experiment.pk, "u", "green", NOON)

    assert remove_all_forced_exposures(NOON) == "removed 1 exposure of users with a forced variant"
    assert exposed() == {"u"}
    assert remove_all_forced_exposures(NOON) == "removed 0 exposures of users with a forced variant"


@pytest.mark.parametrize("is_refreshed", [True, False])
def test_results__tester_assigned_by_somebody_who_had_not_heard_of_it__does_not_count(
    production: Environment, is_refreshed: bool
) -> None:
    experiment = ExperimentFactory(key="e", running=True)
    assign(experiment.pk, "u", "green", NOON)
    if is_refreshed:
        refresh(experiment, NOON)
    experiment = force(production, "qa")
    assign(experiment.pk, "qa", "green", NOON)
    if is_refreshed:
        refresh(experiment, NOON)

    assert compute_results(experiment, NOON)["green"].sample_size == 1
    assert exposed() == {"u"}


def test_remove_all_forced_exposures__stopped_experiment__changes_what_is_not_frozen_yet(
    production: Environment,
) -> None:
    experiment = ExperimentFactory(key="e", stopped=True, forced_variants={"qa": "green"})
    assign(experiment.pk, "qa", "green", NOON)
    assign(experiment.pk, "u", "green", NOON)
    refresh(experiment, NOON)

    assert remove_all_forced_exposures(NOON) == "removed 1 exposure of users with a forced variant"
    assert compute_results(experiment, NOON)["green"].sample_size == 1


def test_stop__with_a_winner__freezes_without_who_was_exposed_while_becoming_a_tester(production: Environment) -> None:
    experiment = ExperimentFactory(key="e", running=True, forced_variants={"qa": "green"})
    assign(experiment.pk, "qa", "green", NOON)  # by somebody who has not heard of it
    assign(experiment.pk, "u", "green", NOON)
    stopped = stop_experiment(
        key="e", environment=production, actor=ACTOR, now=NOON, winner="green", reason="It is the nicer one."
    )

    assert stopped.frozen_at is not None
    assert compute_results(stopped, NOON)["green"].sample_size == 1
