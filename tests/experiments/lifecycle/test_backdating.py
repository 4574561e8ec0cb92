"""`manage.py start_experiment` and `stop_experiment`, at moments in the past and at invalid ones."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.core.management import CommandError

from config.models import Change, Environment
from events.recording import NewEvent, new_id, record
from experiments.models import Experiment, Exposure, Status
from tests.conftest import NOON
from tests.events.imports.importing import run
from tests.factories import ExperimentFactory

pytestmark = pytest.mark.django_db

NOW = NOON + timedelta(days=30)


def test_start__at_a_moment_of_the_past__begins_phase_and_exposures_there(production: Environment) -> None:
    ExperimentFactory(key="e")
    at = NOON + timedelta(days=1)
    record([NewEvent(new_id(), "u", "seen", at, at, {"experimentId": "e", "variant": "green"})], production)
    out, _ = run("start_experiment", "e", "--at", "2026-01-31T13:00:00+01:00", "--reason", "history", at=NOW)

    assert out == "e has been running since 2026-01-31T12:00:00.000000Z.\n"
    experiment = Experiment.objects.get()
    assert (experiment.started_at, experiment.phases[0]["startedAt"]) == (NOON, "2026-01-31T12:00:00.000000Z")
    assert [exposure.user_id for exposure in Exposure.objects.all()] == ["u"]
    change = Change.objects.latest("revision")
    assert (change.reason, change.source) == ("history", "command")
    assert change.at >= NOW


def test_start_and_stop__without_a_moment__are_of_now(staging: Environment) -> None:
    ExperimentFactory(key="e", environment=staging)
    run("start_experiment", "e", "--environment", "staging", at=NOW)
    run("stop_experiment", "e", "--environment", "staging", at=NOW)
    experiment = Experiment.objects.get()
    start, stop = Change.objects.order_by("-revision")[:2][::-1]
    assert (experiment.started_at, experiment.stopped_at) == (start.at, stop.at)


def test_stop__with_a_winner__declares_it() -> None:
    ExperimentFactory(key="e", running=True)
    arguments = ("e", "--at", "2026-02-01", "--winner", "green", "--reason", "known from elsewhere")
    assert run("stop_experiment", *arguments, at=NOW)[0] == (
        "e has been stopped since 2026-02-01T00:00:00.000000Z, and green wins.\n"
    )
    experiment = Experiment.objects.get()
    assert (experiment.status, experiment.winner) == (Status.STOPPED, "green")
    assert experiment.frozen_at is not None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("start_experiment", "draft", "--at", "2026-03-02T12:00:01Z"), "--at: Must not lie in the future."),
        (("start_experiment", "draft", "--at", "0026-03-02"), "--at: Must be within the last 3,650 days."),
        (("start_experiment", "draft", "--at", "yesterday"), "Error: argument --at: must be a day such as 2026-01-31"),
        (("start_experiment", "nobody"), "No experiment has the key 'nobody'"),
        (("start_experiment", "e"), "The experiment is running; only a draft experiment can become running."),
        (("stop_experiment", "e", "--at", "2026-03-03"), "--at: Must not lie in the future."),
        (
            ("stop_experiment", "e", "--at", "2026-01-31T11:59:59Z"),
            "--at: Must not be before the start of the last phase, 2026-01-31T12:00:00.000000Z.",
        ),
        (("stop_experiment", "draft"), "The experiment is draft; only a running experiment can become stopped."),
        (("stop_experiment", "e", "--winner", "purple"), "winner: Must be a variant of the experiment"),
        (("stop_experiment", "e", "--winner", "green"), "reason: "),
        (("stop_experiment", "e", "--environment", "moon"), "Unknown environment 'moon'"),
    ],
)
def test_moment__that_makes_no_sense__is_refused_and_nothing_changes(arguments: tuple[str, ...], message: str) -> None:
    ExperimentFactory(key="draft")
    ExperimentFactory(key="e", running=True)
    before = list(Experiment.objects.order_by("key").values_list("status", "started_at", "stopped_at"))
    with pytest.raises(CommandError) as refusal:
        run(*arguments, at=NOW)
    assert str(refusal.value).startswith(message)
    assert list(Experiment.objects.order_by("key").values_list("status", "started_at", "stopped_at")) == before
