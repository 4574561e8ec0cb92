"""The archive: what goes into it, what lists leave out, and what an archived experiment cannot do."""

from __future__ import annotations

from typing import Any

import pytest

from config.errors import DomainError
from config.models import Change, Environment
from experiments.lifecycle.changes import (
    archive_experiment,
    get_experiment,
    reopen_experiment,
    start_experiment,
    unarchive_experiment,
)
from experiments.lifecycle.groups import free_in
from experiments.models import Experiment
from tests.conftest import ACTOR, NOON
from tests.factories import ExperimentFactory

pytestmark = pytest.mark.django_db

HALF = {"key": "checkout", "from": 0, "to": 50}


@pytest.fixture
def step_arguments(production: Environment) -> dict[str, Any]:
    return {"key": "e", "environment": production, "actor": ACTOR, "now": NOON}


def is_archived() -> bool:
    return Experiment.objects.archived().filter(key="e").exists()


def refusal(step: Any, step_arguments: dict[str, Any]) -> str:
    revision = Change.objects.latest_revision()
    with pytest.raises(DomainError) as refused:
        step(**step_arguments)
    assert Change.objects.latest_revision() == revision
    return str(refused.value.code)


@pytest.mark.parametrize("status", ["draft", "stopped"])
def test_archive__and_back__is_logged(step_arguments: dict[str, Any], status: str) -> None:
    experiment = ExperimentFactory(key="e", **({} if status == "draft" else {"stopped": True}))
    archived = archive_experiment(**step_arguments)
    assert (archived.status, is_archived()) == (status, True)

    unarchive_experiment(**step_arguments)
    assert not is_archived()
    back, away = Change.objects.of("experiment", experiment.pk)[:2]
    assert away.after is not None
    assert back.after is not None
    assert ("archivedAt" in away.after, "archivedAt" in back.after) == (True, False)


@pytest.mark.parametrize("step", [archive_experiment, unarchive_experiment])
def test_archive__running__is_refused(step_arguments: dict[str, Any], step: Any) -> None:
    ExperimentFactory(key="e", running=True)

    assert refusal(step, step_arguments) == "invalid_transition"
    assert not is_archived()


def test_archive__twice__writes_once(step_arguments: dict[str, Any]) -> None:
    ExperimentFactory(key="e")
    unarchive_experiment(**step_arguments)
    first = archive_experiment(**step_arguments).archived_at
    revision = Change.objects.latest_revision()

    assert archive_experiment(**step_arguments).archived_at == first
    assert Change.objects.latest_revision() == revision


def test_archived__draft__cannot_start(step_arguments: dict[str, Any]) -> None:
    ExperimentFactory(key="e")
    archive_experiment(**step_arguments)

    assert refusal(start_experiment, step_arguments) == "invalid_transition"
    unarchive_experiment(**step_arguments)
    assert start_experiment(**step_arguments).status == "running"


def test_archived__stopped__cannot_be_reopened(step_arguments: dict[str, Any]) -> None:
    ExperimentFactory(key="e", stopped=True)
    archive_experiment(**step_arguments)

    assert refusal(reopen_experiment, step_arguments) == "invalid_transition"
    assert get_experiment("e", step_arguments["environment"]).status == "stopped"


def test_archived__draft__gives_its_share_of_the_group_back(step_arguments: dict[str, Any]) -> None:
    ExperimentFactory(key="e", group=HALF)
    archive_experiment(**step_arguments)
    assert free_in(step_arguments["environment"], "checkout") == "0 to 100 %"

    ExperimentFactory(key="other", group=HALF)
    assert refusal(unarchive_experiment, step_arguments) == "in_use"
    assert is_archived()
