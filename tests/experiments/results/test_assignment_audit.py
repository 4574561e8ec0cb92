"""The assignment audit of stored exposures, and the output of `manage.py audit_assignments`."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from config.change_log.writing import writing
from events.recording import NewEvent, new_id, record
from experiments.exposures.recording import assign, record_imported
from experiments.exposures.reports import Report
from experiments.models import Experiment, Exposure, Origin
from experiments.models.documents import KIND, experiment_as_json
from experiments.results.assignment_audit import assignment_audit_document, audit_assignments, parse_assignment_audit
from experiments.results.classification import Cause
from flags.engine.bucketing import compile_split
from tests.conftest import ACTOR, NOON
from tests.factories import ExperimentFactory

pytestmark = pytest.mark.django_db

SPLIT = compile_split((("control", 50), ("green", 50)), "e")
OTHER = {"control": "green", "green": "control"}


@pytest.fixture
def experiment() -> Experiment:
    """A running experiment with twenty users in the variants that the hash gives."""
    experiment = ExperimentFactory(key="e", running=True)
    for number in range(20):
        assign(experiment.pk, f"user-{number}", SPLIT(f"user-{number}"), NOON, {"plan": "pro"})
    return experiment


def run(*arguments: str) -> str:
    out = StringIO()
    call_command("audit_assignments", *arguments, stdout=out, stderr=StringIO())
    return out.getvalue()


def run_alarmed(*arguments: str) -> tuple[str, str]:
    """Return the output and the error of the command."""
    out = StringIO()
    with pytest.raises(CommandError) as alarm:
        call_command("audit_assignments", *arguments, stdout=out, stderr=StringIO())
    return out.getvalue(), str(alarm.value)


def report(environment: Any, user_id: str, variant: str, at: datetime = NOON) -> None:
    properties = {"experimentId": "e", "variant": variant}
    record([NewEvent(new_id(), user_id, "seen", at, at, properties)], environment)


def set_columns(experiment: Experiment, **columns: Any) -> Experiment:
    """Change an experiment as a write does, with an entry in the change log."""
    with writing(actor=ACTOR, now=NOON) as log:
        before = experiment_as_json(experiment)
        for name, value in columns.items():
            setattr(experiment, name, value)
        experiment.save(update_fields=list(columns))
        environment = experiment.environment.key
        after = experiment_as_json(experiment)
        log.append(
            KIND, object_id=experiment.pk, key=experiment.key, environment=environment, before=before, after=after
        )
    return experiment


def test_audit__users_in_the_variants_of_the_hash__finds_nothing(experiment: Experiment) -> None:
    progress: list[int] = []
    audit = audit_assignments(experiment, on_progress=progress.append)
    assert (audit.exposures, audit.differing, audit.share, sum(progress)) == (20, 0, 0.0, 20)
    assert run("e") == "e: 20 exposures, of which 0 differ (0.00%)\n"


def test_audit__nobody_exposed__finds_nothing() -> None:
    audit = audit_assignments(ExperimentFactory(running=True))
    assert (audit.exposures, audit.share) == (0, 0.0)


def test_audit__variant_that_nothing_explains__is_an_alarm(experiment: Experiment) -> None:
    assign(experiment.pk, "wrong", OTHER[SPLIT("wrong")], NOON)
    printed, alarm = run_alarmed()
    assert printed.splitlines() == [
        "e: 21 exposures, of which 1 differ (4.76%)",
        "  1 differ, for no known cause: wrong",
    ]
    assert alarm == "Exposures that this service should not have made: e."


def test_audit__reported_and_then_asked_for__is_still_reported(production, experiment) -> None:
    variant = OTHER[SPLIT("reported")]
    report(production, "reported", variant)
    assert audit_assignments(experiment).causes[Cause.SELF_REPORTED] == 1
    assign(experiment.pk, "reported", variant, NOON)
    assert Exposure.objects.get(user_id="reported").origin == Origin.ASSIGNED

    assert audit_assignments(experiment).causes == {**dict.fromkeys(Cause, 0), Cause.SELF_REPORTED: 1}


def test_audit__imported_and_then_asked_for__is_still_imported(experiment: Experiment) -> None:
    variant = OTHER[SPLIT("imported")]
    record_imported(experiment, [("imported", Report(variant, NOON, {}))])
    assert assign(experiment.pk, "imported", SPLIT("imported"), NOON + timedelta(hours=1)) == variant

    assert Exposure.objects.get(user_id="imported").origin == Origin.TOLD
    assert audit_assignments(experiment).causes == {**dict.fromkeys(Cause, 0), Cause.SELF_REPORTED: 1}


def test_audit__asked_for_and_then_imported_with_an_earlier_moment__is_imported(experiment: Experiment) -> None:
    in_june = {"attribute": "now", "operator": "after", "value": "2026-06-01T00:00:00Z"}
    set_columns(experiment, phases=[{**experiment.phases[0], "conditions": [in_june]}])
    assign(experiment.pk, "u", SPLIT("u"), NOON + timedelta(hours=2), {"now": "2026-01-01T00:00:00Z"})
    assert audit_assignments(experiment).alarming == 1

    record_imported(experiment, [("u", Report(SPLIT("u"), NOON + timedelta(hours=1), {}))])
    assert audit_assignments(experiment).causes == {**dict.fromkeys(Cause, 0), Cause.SELF_REPORTED: 1}


@pytest.mark.parametrize("is_forced_once", [False, True])
def test_audit__reported_and_then_asked_for__is_reported_whatever_else_would_explain_it(
    production, experiment, is_forced_once: bool
) -> None:
    first, second = OTHER[SPLIT("reported")], SPLIT("reported")
    of_first = {"variants": [{"key": key, "weight": int(key == first)} for key in OTHER]}
    later = {**experiment.phases[0], **of_first, "startedAt": "2026-03-01T00:00:00Z"}
    set_columns(experiment, phases=[*experiment.phases, later])
    if is_forced_once:
        set_columns(experiment, forced_variants={"reported": "green"})
        set_columns(experiment, forced_variants={})
    report(production, "reported", first)
    report(production, "reported", second, NOON + timedelta(hours=1))
    assert assign(experiment.pk, "reported", second, NOON + timedelta(hours=2)) == first

    assert audit_assignments(experiment).causes == {**dict.fromkeys(Cause, 0), Cause.SELF_REPORTED: 1}


def test_audit__variant_that_is_reported_after_it_was_assigned__is_not_explained_by_that(
    production, experiment: Experiment
) -> None:
    assign(experiment.pk, "wrong", OTHER[SPLIT("wrong")], NOON)
    report(production, "wrong", OTHER[SPLIT("wrong")], NOON + timedelta(minutes=1))

    assert audit_assignments(experiment).causes[Cause.UNEXPLAINED] == 1


def test_audit__event_that_reports_another_variant__explains_nothing(production, experiment) -> None:
    assign(experiment.pk, "wrong", OTHER[SPLIT("wrong")], NOON)
    report(production, "wrong", SPLIT("wrong"))

    audit = audit_assignments(experiment)
    assert (audit.causes[Cause.UNEXPLAINED], audit.in_several_variants) == (1, 1)


def test_audit__user_forced_in_the_past__is_found_in_the_change_log(experiment: Experiment) -> None:
    set_columns(experiment, forced_variants={"tester": "green"})
    set_columns(experiment, forced_variants={})
    assign(experiment.pk, "tester", OTHER[SPLIT("tester")], NOON)

    assert audit_assignments(experiment).causes[Cause.FORCED] == 1


def test_audit__conditions__are_compared_with_recorded_attributes(experiment: Experiment) -> None:
    free = {"attribute": "plan", "operator": "equals", "value": "free"}
    set_columns(experiment, phases=[{**experiment.phases[0], "conditions": [free]}])
    assign(experiment.pk, "free", SPLIT("free"), NOON, {"plan": "free"})
    assign(experiment.pk, "unknown", SPLIT("unknown"), NOON)

    assert audit_assignments(experiment).causes == {**dict.fromkeys(Cause, 0), Cause.CONDITIONS_NOT_MET: 20}


def test_audit__exposures_outside_the_run__are_counted_from_the_second_of_the_start(production) -> None:
    experiment = ExperimentFactory(key="e", started_at=NOON + timedelta(seconds=0.7))
    moments = {"early": -0.1, "at once": 0.1, "late": 3601}
    for user_id, seconds in moments.items():
        assign(experiment.pk, user_id, SPLIT(user_id), NOON + timedelta(seconds=seconds))
    Experiment.objects.update(status="stopped", stopped_at=NOON + timedelta(hours=1))

    audit = audit_assignments(Experiment.objects.get())
    assert (audit.before_start, audit.after_stop, audit.differing) == (1, 1, 0)
    assert audit.examples == {"beforeStart": ["early"], "afterStop": ["late"]}


def test_audit__many_exposures__are_read_by_few_queries(experiment, django_assert_max_num_queries) -> None:
    with django_assert_max_num_queries(3):
        audit_assignments(experiment)


def test_document__of_an_audit__reads_back_the_same(experiment: Experiment) -> None:
    assign(experiment.pk, "wrong", OTHER[SPLIT("wrong")], NOON)
    audit = audit_assignments(experiment)
    assert parse_assignment_audit(json.loads(json.dumps(assignment_audit_document(audit)))) == audit


def test_command__json__is_what_the_report_says_with_examples(experiment: Experiment, tmp_path: Path) -> None:
    report(experiment.environment, "r", OTHER[SPLIT("r")])
    file = tmp_path / "audit.json"
    assert run("--json", str(file)) == ""
    [document] = json.loads(file.read_text())
    assert document == {
        "experiment": "e",
        "exposures": 21,
        "differing": 1,
        "share": 1 / 21,
        "selfReported": 1,
        "forced": 0,
        "otherPhase": 0,
        "outsideAudience": 0,
        "conditionsNotMet": 0,
        "unexplained": 0,
        "inSeveralVariants": 0,
        "beforeStart": 0,
        "afterStop": 0,
        "examples": {"selfReported": ["r"]},
    }
    assert json.loads(run("e", "--json", "-")) == [document]


def test_command__several_keys__reports_these_alone(experiment: Experiment, staging) -> None:
    ExperimentFactory(key="f", running=True)
    ExperimentFactory(key="draft")
    ExperimentFactory(key="g", running=True, environment=staging)
    assert [line.split(":")[0] for line in run().splitlines()] == ["e", "f"]
    assert [line.split(":")[0] for line in run("f").splitlines()] == ["f"]
    assert [line.split(":")[0] for line in run("--environment", "staging").splitlines()] == ["g"]


@pytest.mark.usefixtures("experiment")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nobody",), "No experiment has the key 'nobody'"),
        (("draft",), "Drafts have no exposures: draft."),
        (("e", "--environment", "moon"), "Unknown environment 'moon'"),
        (("e", "--json", "/nowhere/a.json"), "Cannot write /nowhere/a.json: No such file"),
    ],
)
def test_command__unacceptable__is_refused_in_one_line(arguments: tuple[str, ...], message: str) -> None:
    ExperimentFactory(key="draft")
    with pytest.raises(CommandError) as refusal:
        run(*arguments)
    assert str(refusal.value).startswith(message)
