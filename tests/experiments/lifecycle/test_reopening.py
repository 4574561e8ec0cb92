"""Reopening stopped experiments: as if they had not been stopped, or a refusal."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
import time_machine

from config.errors import DomainError
from config.models import Change, Environment
from events.recording import NewEvent, new_id, record
from events.removal import plan_purge
from experiments.lifecycle import decisions
from experiments.lifecycle.changes import get_experiment, reopen_experiment, stop_experiment, update_experiment
from experiments.models import EXPOSURE, Experiment, Exposure, ResultState, UserValue
from experiments.results import archive
from experiments.results.analyse import VariantResult, analyse_experiment, compute_results
from experiments.results.archive import freeze, refresh_results
from flags.changes.flag_changes import archive_flag, create_flag, delete_flag, get_flag, update_flag
from flags.changes.segment_changes import create_segment, delete_segment
from tests.conftest import ACTOR, NOON
from tests.experiments.lifecycle.shipping import (
    OWN,
    flag_rules,
    record_clear_winner,
    record_visits,
    run_experiment,
    step_arguments,
    stored_state,
)
from tests.factories import ExperimentFactory

pytestmark = pytest.mark.django_db

OUTCOMES: list[dict[str, Any]] = [{}, {"winner": "green"}, {"winner": "green", "holdback": 10}]


def stop(environment: Environment, **values: Any) -> datetime:
    """Stop the experiment, and return the time of the stop."""
    stopped_at = stop_experiment(**step_arguments(environment, **values)).stopped_at
    assert stopped_at is not None
    return stopped_at


def refused(environment: Environment, *, at: datetime | None = None) -> DomainError:
    """Return the refusal of a reopening, after checking that nothing was written."""
    before = stored_state(environment)
    with pytest.raises(DomainError) as error:
        reopen_experiment(**{**step_arguments(environment), **({"now": at} if at else {})})
    assert stored_state(environment) == before
    return error.value


def see(user: str, at: datetime, received_at: datetime | None = None, variant: str = "green") -> NewEvent:
    return NewEvent(new_id(), user, "seen", at, received_at or at, {"experimentId": "e", "variant": variant})


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_reopen__stopped_and_nothing_else__is_as_if_it_had_not_been_stopped(
    production: Environment, outcome: dict[str, Any]
) -> None:
    experiment = run_experiment(production)
    record_clear_winner(production)
    before = (flag_rules(production), analyse_experiment(experiment, NOON))
    stop(production, **outcome)
    revision = Change.objects.latest_revision()
    reopened = reopen_experiment(**step_arguments(production, reason="Too early"))

    columns = (reopened.status, reopened.stopped_at, reopened.frozen_at, reopened.winner, reopened.decision)
    assert columns == ("running", None, None, "", None)
    assert flag_rules(production) == before[0]
    after = analyse_experiment(reopened, NOON)
    assert (after.metrics, after.verdict, after.guards) == (before[1].metrics, before[1].verdict, before[1].guards)
    changed = Change.objects.since(revision).values_list("kind", "key", "reason")
    assert sorted(changed) == [("experiment", "e", "Too early"), ("flag", "button", "Too early")]


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_reopen__exposures_reported_meanwhile__count(production: Environment, outcome: dict[str, Any]) -> None:
    run_experiment(production)
    record_clear_winner(production)
    stopped_at = stop(production, **outcome)
    later = stopped_at + timedelta(seconds=30)
    bought = NewEvent(new_id(), "new", "purchase", later + timedelta(seconds=1), later + timedelta(seconds=1), {})
    record([see("new", later), bought, see("early", NOON + timedelta(minutes=1), later)], production)
    reopened = reopen_experiment(**step_arguments(production))

    assert set(Exposure.objects.filter(user_id__in=["new", "early"]).values_list("user_id", "variant")) == {
        ("new", "green"),
        ("early", "green"),
    }
    assert compute_results(reopened, later)["green"] == VariantResult(152, 121)


def test_reopen__frozen_by_maintenance__counts_again_and_can_freeze_again(production: Environment) -> None:
    run_experiment(production)
    record_clear_winner(production)
    stopped_at = stop(production)
    freeze(get_experiment("e", production), stopped_at + timedelta(days=2))
    assert ResultState.objects.get().archive is not None

    reopened = reopen_experiment(**step_arguments(production, now=stopped_at + timedelta(days=3)))
    assert (ResultState.objects.get().archive, reopened.frozen_at) == (None, None)
    record_visits(production, "control", 160, 30)
    assert compute_results(reopened, stopped_at)["control"].sample_size == 160
    assert stop_experiment(**step_arguments(production, winner="green")).frozen_at is not None
    refresh_results(NOON)
    assert ResultState.objects.get().archive is not None


def test_reopen__testers_changed_meanwhile__are_in_the_rule_of_the_flag(production: Environment) -> None:
    run_experiment(production)
    stop(production)
    update_experiment(**step_arguments(production), changes={"forced_variants": {"qa-1": "green"}})
    reopen_experiment(**step_arguments(production))

    assert flag_rules(production)[0]["forced"] == {"qa-1": "green"}
    assert flag_rules(production)[1:] == OWN


def test_reopen__user_who_became_a_tester_while_frozen__counts_no_more(production: Environment) -> None:
    run_experiment(production)
    record_clear_winner(production)
    stop(production, winner="green")
    update_experiment(**step_arguments(production), changes={"forced_variants": {"green-0": "control"}})
    assert compute_results(get_experiment("e", production), NOON)["green"] == VariantResult(150, 120)

    assert compute_results(reopen_experiment(**step_arguments(production)), NOON)["green"] == VariantResult(149, 119)


@pytest.mark.parametrize("is_freed_first", [True, False])
@pytest.mark.parametrize("outcome", OUTCOMES)
def test_reopen__reports_of_who_was_a_tester_then__do_not_count(
    production: Environment, outcome: dict[str, Any], is_freed_first: bool
) -> None:
    experiment = run_experiment(production, forced_variants={"qa": "green"})
    record_clear_winner(production)
    before = Change.objects.earliest("revision").at - timedelta(minutes=1)
    record([see("qa", before), see("usual", before)], production)
    assert compute_results(experiment, before)["green"].sample_size == 151

    ends = [
        lambda: update_experiment(**step_arguments(production), changes={"forced_variants": None}),
        lambda: stop(production, **{**outcome, "reason": "Because"} if outcome else {}),
    ]
    for end in ends if is_freed_first else ends[::-1]:
        end()
    reopened = reopen_experiment(**step_arguments(production))
    assert compute_results(reopened, before)["green"].sample_size == 151


def test_reopen__reports_of_who_is_a_tester_no_more__count(production: Environment) -> None:
    run_experiment(production, forced_variants={"qa": "green"})
    update_experiment(**step_arguments(production), changes={"forced_variants": None})
    later = stop(production) + timedelta(seconds=1)
    record([see("qa", later)], production)
    reopen_experiment(**step_arguments(production))

    assert Exposure.objects.get().user_id == "qa"


def test_reopen__without_a_flag__just_runs(production: Environment) -> None:
    ExperimentFactory(key="e", running=True)
    stop(production)

    assert reopen_experiment(**step_arguments(production)).status == "running"


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("begin", [{}, {"running": True}])
def test_reopen__not_stopped__is_refused(production: Environment, begin: dict[str, Any]) -> None:
    ExperimentFactory(key="e", **begin)

    error = refused(production)
    assert error.code == "invalid_transition"
    assert "only a stopped experiment can be reopened" in error.message


def test_reopen__more_than_thirty_days_after_the_stop__is_refused(production: Environment) -> None:
    run_experiment(production)
    stopped_at = stop(production)

    error = refused(production, at=stopped_at + timedelta(days=30, seconds=1))
    assert (error.code, "30 days" in error.message) == ("invalid_transition", True)
    reopened = reopen_experiment(**step_arguments(production, now=stopped_at + timedelta(days=30)))
    assert reopened.status == "running"


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_reopen__flag_changed_since__is_refused(production: Environment, outcome: dict[str, Any]) -> None:
    run_experiment(production)
    record_clear_winner(production)
    stop(production, **outcome)
    update_flag(
        **{**step_arguments(production), "key": "button"}, changes={"rules": [{"type": "users", "userIds": ["u"]}]}
    )

    error = refused(production)
    assert (error.code, "button was changed since" in error.message) == ("experiment_locked", True)


def to_variants(**flag: Any) -> None:
    variants = [{"key": "old", "value": "a"}, {"key": "new", "value": "b"}]
    update_flag(**flag, changes={"type": "string", "variants": variants, "rules": []})


def there_and_back(**flag: Any) -> None:
    update_flag(**flag, changes={"enabled": False})
    update_flag(**flag, changes={"enabled": True})


def recreate(**flag: Any) -> None:
    enabled, served = True, get_flag(flag["key"], flag["environment"]).rules
    delete_flag(**flag)
    create_flag(**flag, enabled=enabled, rules=served)


@pytest.mark.parametrize("outcome", OUTCOMES)
@pytest.mark.parametrize("change", [archive_flag, delete_flag, to_variants, there_and_back, recreate])
def test_reopen__flag_touched_in_any_way_since__is_refused_in_words_without_fields(
    production: Environment, change: Callable[..., Any], outcome: dict[str, Any]
) -> None:
    run_experiment(production)
    record_clear_winner(production)
    stop(production, **outcome)
    before = get_experiment("e", production)
    change(**{**step_arguments(production), "key": "button"})

    with pytest.raises(DomainError) as error:
        reopen_experiment(**step_arguments(production))
    assert (error.value.code, "button was changed since" in error.value.message) == ("experiment_locked", True)
    assert ("plan a new experiment" in error.value.message, "flag.key" in error.value.message) == (True, False)
    assert get_experiment("e", production).decision == before.decision


def test_reopen__flag_changed_in_another_environment_alone__runs_again(
    production: Environment, staging: Environment
) -> None:
    run_experiment(production)
    stop(production)
    update_flag(**{**step_arguments(staging), "key": "button"}, changes={"rules": []})

    assert reopen_experiment(**step_arguments(production)).status == "running"
    assert flag_rules(production)[1:] == OWN


def test_reopen__stopped_again__goes_by_the_newer_stop(production: Environment) -> None:
    run_experiment(production)
    for _ in range(2):
        stop(production)
        assert reopen_experiment(**step_arguments(production)).status == "running"
    assert flag_rules(production)[1:] == OWN


def test_reopen__segment_of_its_flags_other_rules_deleted_since__is_refused_in_words_without_fields(
    production: Environment,
) -> None:
    create_segment(key="crowd", actor=ACTOR, now=NOON)
    run_experiment(production)
    named = [*flag_rules(production), {"type": "segment", "segment": "crowd"}]
    update_flag(**{**step_arguments(production), "key": "button"}, changes={"rules": named})
    stop(production, winner="green", ship_to="everyone", reason="Because")
    delete_segment(key="crowd", actor=ACTOR, now=NOON)

    error = refused(production)
    assert (error.code, "crowd" in error.message, "rules[" in error.message) == ("experiment_locked", True, False)


def test_reopen__segment_of_its_own_conditions_deleted_since__is_refused_in_words_without_fields(
    production: Environment,
) -> None:
    create_segment(key="crowd", actor=ACTOR, now=NOON)
    run_experiment(production, conditions=[{"operator": "inSegment", "value": "crowd"}])
    stop(production)
    delete_segment(key="crowd", actor=ACTOR, now=NOON)

    error = refused(production)
    message = "The experiment cannot be reopened: No segment has the key crowd; create it first."
    assert (error.code, error.message) == ("experiment_locked", message)


def test_reopen__flag_that_another_experiment_drives_now__is_refused(production: Environment) -> None:
    experiment = run_experiment(production)
    stop(production)
    ExperimentFactory(key="other", flag=experiment.flag, running=True)

    error = refused(production)
    assert (error.code, "other" in error.message) == ("in_use", True)


def test_reopen__part_of_its_group_taken_since__is_refused(production: Environment) -> None:
    run_experiment(production, group={"key": "checkout", "from": 0, "to": 50})
    stop(production)
    ExperimentFactory(key="other", group={"key": "checkout", "from": 40, "to": 60})

    error = refused(production)
    assert (error.code, "other" in error.message) == ("in_use", True)


def test_reopen__that_breaks_off__is_as_if_it_had_not_been_tried(
    production: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_experiment(production)
    record_clear_winner(production)
    stop(production, winner="green")
    before = stored_state(production)

    def break_off(*_: Any) -> None:
        raise RuntimeError

    monkeypatch.setattr(decisions, "record_reported_meanwhile", break_off)
    with pytest.raises(RuntimeError):
        reopen_experiment(**step_arguments(production))
    assert stored_state(production) == before
    assert UserValue.objects.filter(metric=EXPOSURE).count() == 300


# --- what has to wait until it can no longer be opened again ----------------------------------------------------------


def test_purge__frozen_but_may_be_opened_again__keeps_the_events(production: Environment) -> None:
    run_experiment(production)
    record_clear_winner(production)
    stopped_at = stop(production, winner="green")
    refresh_results(stopped_at)

    with time_machine.travel(stopped_at + timedelta(days=29), tick=False):
        assert [hold.by for hold in plan_purge(production, stopped_at).holds] == ["experiment e"]
    with time_machine.travel(stopped_at + timedelta(days=31), tick=False):
        assert plan_purge(production, stopped_at).holds == []


def test_archive__opened_again_while_explaining__keeps_nothing(
    production: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_experiment(production)
    record_clear_winner(production)
    explain_all = archive.explain_all

    def reopen_and_explain(experiment: Experiment, *moments: Any) -> Any:
        reopen_experiment(**step_arguments(production))
        return explain_all(experiment, *moments)

    with monkeypatch.context() as patched:
        patched.setattr(archive, "explain_all", reopen_and_explain)
        stop(production, winner="green")
        refresh_results(NOON)

    assert (get_experiment("e", production).status, ResultState.objects.get().archive) == ("running", None)
    refresh_results(NOON)
    assert ResultState.objects.get().archive is None
