"""Undoing stops, reopenings, the archive and the deletion of drafts, as people undo them in the admin."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from config.models import Change, Environment
from events.recording import record
from experiments.lifecycle.changes import (
    archive_experiment,
    create_experiment,
    delete_experiment,
    get_experiment,
    reopen_experiment,
    stop_experiment,
    unarchive_experiment,
    update_experiment,
)
from experiments.lifecycle.new_phase import open_phase
from experiments.models import Experiment
from experiments.models.documents import experiment_as_json
from experiments.results.analyse import VariantResult, analyse_experiment, compute_results
from flags.changes.flag_changes import delete_flag, get_flag, update_flag
from flags.changes.flag_rows import flag_as_json as flag_document
from flags.changes.segment_changes import create_segment, get_segment, update_segment
from tests.conftest import ACTOR
from tests.experiments.lifecycle.shipping import flag_rules
from tests.experiments.lifecycle.undos import ADA, DRIVING, LATER, START, attempted, begin, buy, refused, see, undo
from tests.factories import ExperimentFactory

pytestmark = pytest.mark.django_db

ENDS: list[dict[str, Any]] = [
    {},
    {"winner": "green", "reason": "Because"},
    {"winner": "green", "reason": "Because", "holdback": 10, "ship_to": "everyone"},
]
CHANGED = "The experiment e has changed since, so this cannot be undone. See the history."


@pytest.fixture
def running(production: Environment) -> Experiment:
    """An experiment that drives a flag, with users who saw a variant, some of whom bought."""
    experiment = begin(production, **DRIVING, minimum_days=0)
    expose(production, "first", 60, 20)
    return experiment


def expose(environment: Environment, name: str, seconds: int, buyers: int) -> None:
    at = START + timedelta(seconds=seconds)
    for variant in ("control", "green"):
        users = [f"{name}-{variant}-{number}" for number in range(40)]
        record([see(user, at, variant) for user in users], environment)
        record([buy(user, at + timedelta(seconds=1)) for user in users[:buyers]], environment)


def step(environment: Environment, **values: Any) -> dict[str, Any]:
    return {"key": "e", "environment": environment, "actor": ADA, "now": LATER, **values}


def stop(environment: Environment, **values: Any) -> Experiment:
    """Stop the experiment in the admin, and read the results."""
    stopped = stop_experiment(**step(environment, **values))
    compute_results(stopped, LATER)
    return stopped


def driven(environment: Environment) -> Any:
    return flag_document(get_flag("button", environment))


# stops


@pytest.mark.parametrize("end", ENDS)
def test_stop__undone__is_as_if_it_had_not_been_stopped(
    production: Environment, running: Experiment, end: dict[str, Any]
) -> None:
    before = (experiment_as_json(running), driven(production), analyse_experiment(running, LATER))
    stop(production, **end)
    assert driven(production) != before[1]
    made = Change.objects.latest_revision()
    assert attempted(made) is None
    undo(made)

    now = get_experiment("e", production)
    assert (experiment_as_json(now), now.frozen_at) == (before[0], None)
    assert driven(production) == before[1]
    after = analyse_experiment(now, LATER)
    assert (after.metrics, after.verdict, after.guards) == (before[2].metrics, before[2].verdict, before[2].guards)
    undone = Change.objects.since(made)
    assert sorted(change.kind for change in undone) == ["experiment", "flag"]
    assert {change.reason for change in undone} == {f"Undo of change {made}"}


@pytest.mark.parametrize("end", ENDS)
def test_stop__undone_after_users_were_reported__counts_as_many_as_without_the_stop(
    production: Environment, running: Experiment, end: dict[str, Any]
) -> None:
    stop(production, **end)
    expose(production, "late", 400, 10)
    undo(at=LATER + timedelta(minutes=3))
    results = compute_results(get_experiment("e", production), LATER)
    assert results["green"] == VariantResult(80, 30)


def test_stop__that_switched_the_flag_on__switches_it_off_again(production: Environment, running: Experiment) -> None:
    flag = {"key": "button", "environment": production, "actor": ACTOR, "now": START}
    update_flag(**flag, changes={"enabled": False})
    before = driven(production)
    stop(production, winner="green", enable=True, reason="Because")
    assert get_flag("button", production).enabled
    undo()
    assert driven(production) == before


def test_stop__of_which_any_change_is_named__goes_back_as_a_whole(production: Environment, running: Experiment) -> None:
    stop(production)
    kinds = {change.kind: change.revision for change in Change.objects.order_by("-revision")[:2]}
    assert kinds.keys() == {"flag", "experiment"}
    undo(kinds["flag"])
    assert get_experiment("e", production).status == "running"
    assert get_flag("button", production).rules[0]["type"] == "experiment"


@pytest.mark.parametrize("end", ENDS)
def test_stop__after_which_the_flag_was_changed__is_not_undone(
    production: Environment, running: Experiment, end: dict[str, Any]
) -> None:
    stop(production, **end)
    made = Change.objects.latest_revision()
    update_flag(key="button", environment=production, changes={"rules": []}, actor=ACTOR, now=LATER)
    assert "The flag button was changed since, in revision" in refused(made)


def test_stop__that_another_reopened_and_stopped__is_not_undone(production: Environment, running: Experiment) -> None:
    stop(production)
    made = Change.objects.latest_revision()
    reopen_experiment(**step(production, now=LATER + timedelta(seconds=1)))
    assert refused(made, at=LATER + timedelta(seconds=5)) == CHANGED
    stop(production, now=LATER + timedelta(seconds=2))
    assert refused(made, at=LATER + timedelta(seconds=5)) == CHANGED


def test_stop__archived_since__is_not_undone(production: Environment, running: Experiment) -> None:
    stop(production)
    made = Change.objects.latest_revision()
    archive_experiment(**step(production))
    assert refused(made) == "The experiment e is archived; take it out of the archive first."


def test_stop__after_ten_minutes__is_not_undone(production: Environment, running: Experiment) -> None:
    stop(production)
    late = LATER + timedelta(minutes=10, seconds=1)
    assert refused(at=late) == "It is too late to undo this change: 10 minutes have passed."
    assert reopen_experiment(**step(production, now=late)).status == "running"


# reopenings


@pytest.mark.parametrize("is_exposing", [True, False])
def test_reopening__undone__is_stopped_as_it_was(
    production: Environment, running: Experiment, is_exposing: bool
) -> None:
    stopped = stop(production)
    before, flag, results = experiment_as_json(stopped), driven(production), analyse_experiment(stopped, LATER)
    reopen_experiment(**step(production, now=LATER + timedelta(minutes=1)))
    if is_exposing:
        expose(production, "late", 400, 10)
        assert compute_results(get_experiment("e", production), LATER)["green"].sample_size == 80
    made = Change.objects.latest_revision()
    undo(made, at=LATER + timedelta(minutes=2))

    now = get_experiment("e", production)
    assert now.decision is not None
    assert experiment_as_json(now) == {**before, "decision": now.decision}
    assert now.decision["flag"]["before"] == before["decision"]["flag"]["before"]
    assert driven(production) == flag
    after = analyse_experiment(now, LATER)
    assert (after.metrics, after.verdict) == (results.metrics, results.verdict)

    undo(at=LATER + timedelta(minutes=3))  # of the undo
    now = get_experiment("e", production)
    assert (now.status, now.decision) == ("running", None)
    assert compute_results(now, LATER)["green"].sample_size == (80 if is_exposing else 40)


def test_reopening__of_a_shipped_experiment__says_what_to_do_instead(
    production: Environment, running: Experiment
) -> None:
    stop(production, winner="green", reason="Because")
    undo()
    assert refused() == "The results of e are no longer frozen; to take this back, ship green again."


def test_reopening__long_after_the_stop__says_what_to_do_instead(production: Environment, running: Experiment) -> None:
    stop(production)
    late = LATER + timedelta(days=1)
    reopen_experiment(**step(production, now=late))
    assert refused(at=late) == "The results of e may change again; to take this back, stop it again."


def test_reopening__that_opened_a_phase__says_what_to_do_instead(production: Environment) -> None:
    create_segment(key="crowd", user_ids=["u"], actor=ACTOR, now=START)
    begin(production, **DRIVING, conditions=[{"operator": "inSegment", "value": "crowd"}])
    stop(production)
    update_segment(key="crowd", changes={"user_ids": ["v"]}, actor=ACTOR, now=LATER)
    reopen_experiment(**step(production))
    assert refused() == "e has a new phase, which cannot be undone; to take this back, stop it again."


# what else started experiments have


def test_phase__is_not_undone(production: Environment, running: Experiment) -> None:
    open_phase(**step(production, changes={"percentage": 50}, reason="Slower"))
    assert refused() == "A phase cannot be undone; to assign users as before, open another one."


def test_metric_of_a_started_experiment__is_not_undone(production: Environment, running: Experiment) -> None:
    update_experiment(**step(production, changes={"metrics": ["purchase", "refund"]}))
    message = "A metric cannot be removed from a started experiment; the verdict ignores added ones."
    assert refused() == message


def test_forced_variant__of_an_experiment_that_drives_a_flag__goes_back_with_its_rule(
    production: Environment, running: Experiment
) -> None:
    before = (experiment_as_json(running), driven(production))
    update_experiment(**step(production, changes={"forced_variants": {"qa": "green"}}))
    assert flag_rules(production)[0]["forced"] == {"qa": "green"}
    assert attempted() is None
    undo()
    assert (experiment_as_json(get_experiment("e", production)), driven(production)) == before


def test_segment__that_opened_a_phase__goes_back_and_opens_another(production: Environment) -> None:
    create_segment(key="crowd", user_ids=["u"], actor=ACTOR, now=START)
    begin(production, conditions=[{"operator": "inSegment", "value": "crowd"}])
    update_segment(key="crowd", changes={"user_ids": ["v"]}, actor=ADA, now=LATER)
    assert {change.kind for change in Change.objects.order_by("-revision")[:2]} == {"segment", "experiment"}
    undo()
    assert get_segment("crowd").user_ids == ["u"]
    assert len(get_experiment("e", production).phases) == 3
    undo()
    assert get_segment("crowd").user_ids == ["v"]


# the archive


@pytest.mark.parametrize("state", ["draft", "stopped"])
def test_archive__in_and_out__is_undone(production: Environment, state: str) -> None:
    ExperimentFactory(key="e", **({"stopped": True} if state == "stopped" else {}))
    states = [experiment_as_json(get_experiment("e", production))]
    for move in (archive_experiment, unarchive_experiment):
        move(**step(production))
        states.append(experiment_as_json(get_experiment("e", production)))
    made = Change.objects.latest_revision()
    undo(made)
    assert experiment_as_json(get_experiment("e", production)) == states[1]
    undo()
    assert experiment_as_json(get_experiment("e", production)) == states[2]
    assert refused(made - 1) == CHANGED
    undo(made)
    undo(made - 1)
    assert experiment_as_json(get_experiment("e", production)) == states[0]


def test_archived_draft__whose_share_of_the_group_is_taken__is_not_undone(production: Environment) -> None:
    half = {"key": "checkout", "from": 0, "to": 50}
    ExperimentFactory(key="e", group=half)
    archive_experiment(**step(production))
    made = Change.objects.latest_revision()
    ExperimentFactory(key="other", group=half)
    assert "belong to the experiment other" in refused(made)


def test_unarchived_experiment__reopened_since__is_not_undone(production: Environment, running: Experiment) -> None:
    stop(production)
    archive_experiment(**step(production))
    unarchive_experiment(**step(production))
    made = Change.objects.latest_revision()
    reopen_experiment(**step(production))
    assert "The experiment is running" in refused(made)


# deleted drafts


@pytest.mark.parametrize("is_archived", [True, False])
def test_deleted_draft__comes_back_as_it_was(production: Environment, is_archived: bool) -> None:
    half = {"key": "checkout", "from": 0, "to": 50}
    design = {"owner": "Ada", "metrics": ["a", "b"], "percentage": 20, "planned_size": 900, "lookback_days": 0}
    begin(production)  # which has the flag
    delete = {"forced_variants": {"qa": "green"}, "group": half, **DRIVING, **design}
    draft = ExperimentFactory(key="draft", **delete)
    if is_archived:
        archive_experiment(**step(production, key="draft"))
        ExperimentFactory(key="other", group=half)
    draft.refresh_from_db()
    before, created_at = experiment_as_json(draft), draft.created_at
    delete_experiment(**step(production, key="draft"))
    undo()
    now = get_experiment("draft", production)
    assert (experiment_as_json(now), now.pk, now.created_at) == (before, draft.pk, created_at)
    assert Change.objects.of("experiment", draft.pk).first().before is None  # type: ignore[union-attr]
    undo()
    assert not Experiment.objects.filter(key="draft").exists()
    undo()
    assert experiment_as_json(get_experiment("draft", production)) == before


def test_deleted_draft__whose_place_is_taken__stays_deleted(production: Environment) -> None:
    ExperimentFactory(key="e")
    delete_experiment(**step(production))
    made = Change.objects.latest_revision()
    ExperimentFactory(key="e")
    assert refused(made) == "There is another experiment e by now, so this cannot be undone."


def test_deleted_draft__whose_flag_is_gone__stays_deleted(production: Environment) -> None:
    begin(production)
    ExperimentFactory(key="draft", **DRIVING)
    delete_experiment(**step(production, key="draft"))
    made = Change.objects.latest_revision()
    delete_flag(key="button", environment=production, actor=ACTOR, now=LATER)
    assert refused(made) == "The draft draft cannot go back: No flag has the key button; create it first."


def test_draft__created_by_a_person__is_deleted_and_comes_back(production: Environment) -> None:
    create_experiment(**step(production), variants=[{"key": "a", "weight": 1}, {"key": "b", "weight": 1}])
    before = get_experiment("e", production)
    undo()
    assert not Experiment.objects.exists()
    undo()
    now = get_experiment("e", production)
    assert (experiment_as_json(now), now.created_at) == (experiment_as_json(before), before.created_at)
