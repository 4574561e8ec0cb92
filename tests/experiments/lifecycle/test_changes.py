"""Writes of experiments: their statuses, and the properties that each status fixes."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import IntegrityError

from config.errors import DomainError, ValidationFailed
from config.models import Change, Environment
from experiments.lifecycle.changes import (
    create_experiment,
    delete_experiment,
    get_experiment,
    start_experiment,
    stop_experiment,
    update_experiment,
)
from experiments.models import Experiment
from tests.conftest import ACTOR, NOON

pytestmark = pytest.mark.django_db

WRITE = {"actor": ACTOR, "now": NOON}
VARIANTS = [{"key": "a", "weight": 1}, {"key": "b", "weight": 0.5}]


@pytest.fixture
def step_arguments(production: Environment) -> dict[str, Any]:
    return {"key": "e", "environment": production, **WRITE}


@pytest.fixture
def draft(step_arguments: dict[str, Any]) -> Experiment:
    return create_experiment(**step_arguments, variants=VARIANTS, metrics=["buy"])


def test_create__draft__has_no_times_and_is_logged(draft: Experiment) -> None:
    change = Change.objects.latest("revision")

    assert (draft.status, draft.started_at, draft.stopped_at) == ("draft", None, None)
    assert (change.kind, change.environment, change.action) == ("experiment", "production", "created")
    assert change.after is not None
    assert change.after["variants"] == VARIANTS


def test_create__same_key_in_another_environment__is_another_experiment(
    draft: Experiment, staging: Environment
) -> None:
    other = create_experiment(key="e", environment=staging, variants=VARIANTS, **WRITE)

    assert other.pk != draft.pk


def test_create__key_that_exists__is_refused(draft: Experiment, step_arguments: dict[str, Any]) -> None:
    with pytest.raises(DomainError) as refused:
        create_experiment(**step_arguments, variants=VARIANTS)

    assert refused.value.code == "already_exists"


def test_run__through_its_life__each_step_is_logged(draft: Experiment, step_arguments: dict[str, Any]) -> None:
    running = start_experiment(**step_arguments)
    assert (running.status, running.started_at is not None, running.stopped_at) == ("running", True, None)

    stopped = stop_experiment(**step_arguments)
    assert (stopped.status, stopped.started_at) == ("stopped", running.started_at)
    statuses = [change.after["status"] for change in Change.objects.of("experiment", draft.pk) if change.after]
    assert statuses == ["stopped", "running", "draft"]


@pytest.mark.parametrize(
    ("before", "step"),
    [
        ([], stop_experiment),
        ([start_experiment], start_experiment),
        ([start_experiment, stop_experiment], start_experiment),
        ([start_experiment, stop_experiment], stop_experiment),
    ],
)
def test_run__step_out_of_order__is_refused_and_changes_nothing(
    draft: Experiment, step_arguments: dict[str, Any], before: list[Any], step: Any
) -> None:
    for earlier in before:
        earlier(**step_arguments)
    status, revision = get_experiment("e", step_arguments["environment"]).status, Change.objects.latest_revision()
    with pytest.raises(DomainError) as refused:
        step(**step_arguments)

    assert refused.value.code == "invalid_transition"
    assert get_experiment("e", step_arguments["environment"]).status == status
    assert Change.objects.latest_revision() == revision


def test_update__draft__takes_all(draft: Experiment, step_arguments: dict[str, Any]) -> None:
    variants = [{"key": "x", "weight": 1}, {"key": "y", "weight": 2}]
    changes = {"variants": variants, "metrics": ["sign up"], "description": "New", "given_tuning_size": 20_000}
    updated = update_experiment(**step_arguments, changes=changes)

    assert {name: getattr(updated, name) for name in changes} == changes


@pytest.mark.parametrize("size", [100, 5000, 10_000_000])
def test_create__tuning_size__is_kept_and_logged(step_arguments: dict[str, Any], size: int) -> None:
    create_experiment(**step_arguments, variants=VARIANTS, given_tuning_size=size)

    change = Change.objects.latest("revision")
    assert get_experiment("e", step_arguments["environment"]).tuning_size == size
    assert change.after is not None
    assert change.after["tuningSampleSize"] == size


@pytest.mark.parametrize(
    "changes",
    [{"variants": [*VARIANTS, {"key": "c", "weight": 1}]}, {"metrics": []}, {"given_tuning_size": 100}],
)
def test_update__started__is_locked(draft: Experiment, step_arguments: dict[str, Any], changes: dict[str, Any]) -> None:
    start_experiment(**step_arguments)
    with pytest.raises(DomainError) as refused:
        update_experiment(**step_arguments, changes={"description": "Half written", **changes})

    assert refused.value.code == "experiment_locked"
    assert get_experiment("e", step_arguments["environment"]).description == ""


def test_update__started__still_takes_a_description_and_what_is_the_same(
    draft: Experiment, step_arguments: dict[str, Any]
) -> None:
    start_experiment(**step_arguments)
    updated = update_experiment(
        **step_arguments, changes={"description": "Words", "variants": VARIANTS, "metrics": ["buy"]}
    )

    assert updated.description == "Words"


def test_update__nothing_new__writes_nothing(draft: Experiment, step_arguments: dict[str, Any]) -> None:
    before = Change.objects.latest_revision()
    update_experiment(**step_arguments, changes={"metrics": ["buy"], "description": ""})

    assert Change.objects.latest_revision() == before


def test_delete__draft__goes_and_its_history_stays(draft: Experiment, step_arguments: dict[str, Any]) -> None:
    delete_experiment(**step_arguments)

    assert not Experiment.objects.exists()
    assert [change.action for change in Change.objects.of("experiment", draft.pk)] == ["deleted", "created"]


def test_delete__started__is_locked(draft: Experiment, step_arguments: dict[str, Any]) -> None:
    start_experiment(**step_arguments)
    with pytest.raises(DomainError) as refused:
        delete_experiment(**step_arguments)

    assert refused.value.code == "experiment_locked"


@pytest.mark.parametrize(
    ("values", "fields"),
    [
        ({"variants": None}, ["variants"]),
        ({"variants": []}, ["variants"]),
        ({"variants": [{"key": "a", "weight": 1}]}, ["variants"]),
        ({"variants": [{"key": "a", "weight": 1}, {"key": "a", "weight": 1}]}, ["variants[1].key"]),
        ({"variants": [{"key": "a", "weight": 0}, {"key": "b", "weight": 0.0}]}, ["variants"]),
        ({"variants": [{"key": "a", "weight": -1}, {"key": "b", "weight": 1}]}, ["variants[0].weight"]),
        (
            {"variants": [{"key": "a", "weight": True}, {"key": "b", "weight": "1"}]},
            ["variants[0].weight", "variants[1].weight"],
        ),
        (
            {"variants": [{"key": "a b"}, {"weight": 1, "wieght": 1}]},
            ["variants[0].weight", "variants[0].key", "variants[1].wieght", "variants[1].key"],
        ),
        ({"variants": [1, None]}, ["variants[0]", "variants[1]"]),
        ({"variants": [{"key": f"v{at}", "weight": 1} for at in range(51)]}, ["variants"]),
        ({"metrics": ["buy", "buy", 3, "", "m" * 201]}, [f"metrics[{at}]" for at in (1, 2, 3, 4)]),
        ({"metrics": "buy"}, ["metrics"]),
        ({"metrics": [f"m{at}" for at in range(51)]}, ["metrics"]),
        ({"description": "d" * 2001}, ["description"]),
        ({"given_tuning_size": 99}, ["tuningSampleSize"]),
        ({"given_tuning_size": 10_000_001}, ["tuningSampleSize"]),
        ({"given_tuning_size": 5000.5}, ["tuningSampleSize"]),
        ({"given_tuning_size": True}, ["tuningSampleSize"]),
        ({"key": "-"}, ["key"]),
    ],
)
def test_create__unacceptable__names_every_field(
    step_arguments: dict[str, Any], values: dict[str, Any], fields: list[str]
) -> None:
    with pytest.raises(ValidationFailed) as refused:
        create_experiment(**{**step_arguments, "variants": VARIANTS, **values})

    assert [detail.field for detail in refused.value.details] == fields
    assert not Experiment.objects.exists()


def test_database__running_without_a_start__is_impossible(draft: Experiment) -> None:
    draft.status = "running"
    with pytest.raises(IntegrityError):
        draft.save(update_fields=["status"])
