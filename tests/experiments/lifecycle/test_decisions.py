"""Stopping experiments, with or without a winner: in one transaction, and with a reason where required."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from config.errors import DomainError, ValidationFailed
from config.models import Change, Environment
from events.recording import record
from experiments.lifecycle import decisions, flag_rule
from experiments.lifecycle.changes import get_experiment, start_experiment, stop_experiment
from experiments.metrics.changes import create_metric
from experiments.models import Experiment, ResultState
from experiments.results.analyse import VariantResult, analyse_experiment, compute_results
from experiments.results.archive import refresh_results
from flags.changes.flag_changes import create_flag, get_flag
from tests.conftest import ACTOR, NOON
from tests.experiments.lifecycle.shipping import (
    A_DAY_LATER,
    OWN,
    event_at,
    flag_rules,
    record_clear_winner,
    record_visits,
    run_experiment,
    step_arguments,
    stored_state,
)
from tests.factories import ExperimentFactory

pytestmark = pytest.mark.django_db


def refused(environment: Environment, **values: Any) -> list[tuple[str, str]]:
    """Return the fields and codes of a refused stop, after checking that nothing was written."""
    before = stored_state(environment)
    with pytest.raises(ValidationFailed) as error:
        stop_experiment(**step_arguments(environment, **values))
    assert stored_state(environment) == before
    return [(detail.field, str(detail.code)) for detail in error.value.details]


def test_stop__without_a_winner__lets_the_other_rules_of_the_flag_decide(production: Environment) -> None:
    run_experiment(production)
    before = Change.objects.latest_revision()
    stopped = stop_experiment(**step_arguments(production))

    assert (stopped.status, stopped.stopped_at is not None, stopped.winner) == ("stopped", True, "")
    assert stopped.frozen_at is None
    assert flag_rules(production) == OWN
    changed = Change.objects.since(before).values_list("kind", "key")
    assert sorted(changed) == [("experiment", "e"), ("flag", "button")]


def test_stop__without_a_winner__asks_for_no_reason_whatever_the_results_say(production: Environment) -> None:
    run_experiment(production, planned_size=1000)

    assert stop_experiment(**step_arguments(production)).status == "stopped"


def test_stop__winner_by_the_verdict__stops_freezes_and_ships_at_once(production: Environment) -> None:
    experiment = run_experiment(production)
    record_clear_winner(production)
    before = Change.objects.latest_revision()
    stopped = stop_experiment(**step_arguments(production, winner="green"))

    assert (stopped.status, stopped.winner, stopped.frozen_at) == ("stopped", "green", stopped.stopped_at)
    assert flag_rules(production) == [{"type": "percentage", "percentage": 100}, *OWN]
    assert get_flag("button", production).enabled
    assert ResultState.objects.get(experiment=experiment).stopped_at == stopped.stopped_at
    changed = {change.kind: change for change in Change.objects.since(before)}
    assert changed.keys() == {"experiment", "flag"}
    assert changed["experiment"].after is not None
    assert changed["experiment"].after["winner"] == "green"


def test_stop__with_a_winner__keeps_what_was_known_at_that_moment(production: Environment) -> None:
    run_experiment(production)
    record_clear_winner(production)
    decision = stop_experiment(**step_arguments(production, winner="green", holdback=5)).decision

    assert decision is not None
    assert (decision["winner"], decision["holdback"], decision["overridden"]) == ("green", 5, [])
    assert decision["verdict"] == {"decision": "ship", "variant": "green"}
    control, green = decision["primary"]["variants"]
    assert (decision["primary"]["metric"], control["value"], control["lift"]) == ("purchase", 0.2, None)
    assert (green["users"], green["value"], green["lift"]["estimate"]) == (150, 0.8, pytest.approx(3))
    assert green["lift"]["lower"] < 3 < green["lift"]["upper"]


def test_stop__with_a_holdback__keeps_so_many_from_the_winner(production: Environment) -> None:
    run_experiment(production)
    record_clear_winner(production)
    stop_experiment(**step_arguments(production, winner="green", holdback=12.5))

    held = {"type": "percentage", "percentage": 12.5, "salt": "e:holdback", "serves": False}
    assert flag_rules(production) == [held, {"type": "percentage", "percentage": 100}, *OWN]


def test_stop__flag_with_variants__serves_that_of_the_winner(production: Environment) -> None:
    variants = [{"key": "old", "value": "a"}, {"key": "new", "value": "b"}]
    create_flag(
        key="text", environment=production, actor=ACTOR, now=NOON, enabled=True, type="string", variants=variants
    )
    ExperimentFactory(key="e", running=True, flag={"key": "text", "serves": {"control": "old", "green": "new"}})
    record_clear_winner(production)
    stop_experiment(**step_arguments(production, winner="green", holdback=10))

    assert get_flag("text", production).rules == [
        {"type": "percentage", "percentage": 10, "salt": "e:holdback", "variant": "old"},
        {"type": "percentage", "percentage": 100, "variant": "new"},
    ]


def test_stop__with_a_winner__results_stand_still_at_once(production: Environment) -> None:
    run_experiment(production)
    record_clear_winner(production)
    stopped = stop_experiment(**step_arguments(production, winner="green"))
    before = compute_results(stopped, A_DAY_LATER)
    record_visits(production, "control", 200, 200)

    assert before["green"] == VariantResult(150, 120)
    assert compute_results(get_experiment("e", production), A_DAY_LATER) == before


def test_stop__experiment_without_a_flag__may_have_a_winner_too(production: Environment) -> None:
    ExperimentFactory(key="e", running=True)
    record_clear_winner(production)

    assert stop_experiment(**step_arguments(production, winner="green")).winner == "green"


def test_stop__stop_in_the_past__judges_by_what_had_happened_until_then(production: Environment) -> None:
    run_experiment(production, minimum_days=0)
    record_clear_winner(production)
    record([event_at("late", "seen", 90, experimentId="e", variant="control")], production)
    stopped_at = NOON + timedelta(hours=1)
    stopped = stop_experiment(**step_arguments(production, winner="green", stopped_at=stopped_at))

    assert (stopped.stopped_at, stopped.frozen_at is not None) == (stopped_at, True)
    assert compute_results(stopped, A_DAY_LATER)["control"].sample_size == 150


# --- the reason -------------------------------------------------------------------------------------------------------


def _too_many_of_one(environment: Environment) -> dict[str, Any]:
    run_experiment(environment)
    record_clear_winner(environment)
    record_visits(environment, "green", 600, 480)
    return {}


def _harmed(environment: Environment) -> dict[str, Any]:
    write = {"actor": ACTOR, "now": NOON}
    create_metric(
        key="complaints", type="conversion", event="complaint", direction="decrease", role="guardrail", **write
    )
    run_experiment(environment, metrics=["purchase", "complaints"])
    record_clear_winner(environment)
    record_visits(environment, "green", 150, 140, event="complaint")
    return {}


def _too_small(environment: Environment) -> dict[str, Any]:
    run_experiment(environment, planned_size=1000)
    record_clear_winner(environment)
    return {}


def _not_the_winner(environment: Environment) -> dict[str, Any]:
    run_experiment(environment)
    record_clear_winner(environment)
    return {"winner": "control"}


@pytest.mark.parametrize(
    ("arrange", "words", "overridden"),
    [
        (_too_many_of_one, "users are not split by the weights", ["sample_ratio_mismatch", "not_the_verdict"]),
        (_harmed, "it harms the guardrail complaints", ["guardrail_harmed", "not_the_verdict"]),
        (_too_small, "300 users of the 1,000 that are planned", ["planned_size_not_reached"]),
        (_not_the_winner, "the verdict is to ship green", ["not_the_verdict"]),
    ],
)
def test_stop__winner_that_something_speaks_against__demands_a_reason_and_keeps_it(
    production: Environment, arrange: Any, words: str, overridden: list[str]
) -> None:
    values = {"winner": "green", **arrange(production)}
    before = stored_state(production)
    for reason in ("", "  "):
        with pytest.raises(ValidationFailed) as error:
            stop_experiment(**step_arguments(production, **values, reason=reason))
        [detail] = error.value.details
        assert (detail.field, detail.code) == ("reason", "required")
        assert words in detail.message
    assert (get_experiment("e", production).status, stored_state(production)[-2:]) == ("running", before[-2:])
    assert ResultState.objects.get().archive is None

    decision = stop_experiment(**step_arguments(production, **values, reason="We know better.")).decision
    assert decision is not None
    assert (decision["overridden"], decision["reason"]) == (overridden, "We know better.")


def test_stop__nobody_exposed__demands_a_reason_for_any_winner(production: Environment) -> None:
    run_experiment(production)
    compute_results(get_experiment("e", production), NOON)

    shown = analyse_experiment(get_experiment("e", production), NOON).verdict.decision
    with pytest.raises(ValidationFailed) as error:
        stop_experiment(**step_arguments(production, winner="green"))
    assert error.value.message.endswith(": the verdict is to keep the experiment running.")

    stopped = stop_experiment(**step_arguments(production, winner="green", reason="We like it."))
    assert stopped.decision is not None
    assert (stopped.decision["verdict"]["decision"], shown) == ("keep_running", "keep_running")
    assert analyse_experiment(stopped, A_DAY_LATER).verdict.decision == "inconclusive"


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "fields"),
    [
        ({"winner": "purple"}, [("winner", "unknown_reference")]),
        ({"winner": ""}, [("winner", "unknown_reference")]),
        ({"holdback": 5}, [("holdback", "invalid_value")]),
        ({"winner": "green", "holdback": 50.001}, [("holdback", "out_of_range")]),
        ({"winner": "green", "holdback": -1}, [("holdback", "out_of_range")]),
        ({"winner": "green", "holdback": 1.23456}, [("holdback", "invalid_value")]),
        ({"winner": "green", "holdback": True}, [("holdback", "invalid_type")]),
        ({"winner": "purple", "holdback": 51}, [("winner", "unknown_reference"), ("holdback", "out_of_range")]),
    ],
)
def test_stop__unacceptable__names_every_field_and_writes_nothing(
    production: Environment, values: dict[str, Any], fields: list[tuple[str, str]]
) -> None:
    experiment = run_experiment(production)
    compute_results(experiment, A_DAY_LATER)

    assert refused(production, reason="Because.", **values) == fields


@pytest.mark.parametrize("winner", ["control", "green"])
def test_stop__holdback_from_what_the_control_serves_too__is_refused(production: Environment, winner: str) -> None:
    serves = {"control": False, "green": winner == "control"}
    compute_results(run_experiment(production, flag={"key": "button", "serves": serves}), A_DAY_LATER)
    found = [("holdback", "invalid_value")]
    assert refused(production, winner=winner, holdback=5, reason="Because.") == found
    assert stop_experiment(**step_arguments(production, winner=winner, reason="Because.")).winner == winner


def test_stop__holdback_without_a_flag__is_refused(production: Environment) -> None:
    compute_results(ExperimentFactory(key="e", running=True), A_DAY_LATER)

    assert refused(production, winner="green", holdback=5, reason="Because.") == [("holdback", "invalid_value")]


@pytest.mark.parametrize("begin", [{}, {"stopped": True}])
def test_stop__with_a_winner_but_not_running__is_refused(production: Environment, begin: dict[str, Any]) -> None:
    ExperimentFactory(key="e", **begin)
    before = stored_state(production)
    with pytest.raises(DomainError) as error:
        stop_experiment(**step_arguments(production, winner="green", reason="Because."))

    assert error.value.code == "invalid_transition"
    assert stored_state(production) == before


@pytest.mark.parametrize("step", ["ship", "log_change", "analyse_experiment"])
def test_stop__that_breaks_off_anywhere__is_as_if_it_had_not_been_tried(
    production: Environment, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    run_experiment(production)
    record_clear_winner(production)
    decisions._compute_results(get_experiment("e", production), A_DAY_LATER)
    before = stored_state(production)
    monkeypatch.setattr(decisions, "_compute_results", lambda *_: None)
    monkeypatch.setattr(flag_rule if step == "ship" else decisions, step, _break_off)
    with pytest.raises(RuntimeError):
        stop_experiment(**step_arguments(production, winner="green"))

    assert stored_state(production) == before


def test_stop__without_a_winner_that_breaks_off__leaves_the_flag_as_it_was(
    production: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_experiment(production)
    before = stored_state(production)
    monkeypatch.setattr(decisions, "change_status", _break_off)
    with pytest.raises(RuntimeError):
        stop_experiment(**step_arguments(production))

    assert stored_state(production) == before


def test_stop__with_a_winner__leaves_explaining_to_maintenance(production: Environment) -> None:
    run_experiment(production)
    record_clear_winner(production)
    stop_experiment(**step_arguments(production, winner="green"))
    assert get_experiment("e", production).frozen_at is not None
    assert ResultState.objects.get().archive is None

    refresh_results(A_DAY_LATER)
    assert ResultState.objects.get().archive is not None


def test_stop__treatments_that_are_worse__lets_the_control_win_without_a_reason(production: Environment) -> None:
    run_experiment(production)
    record_clear_winner(production, better="control")
    with pytest.raises(ValidationFailed) as error:
        stop_experiment(**step_arguments(production, winner="green"))
    assert "the verdict is to keep the control" in error.value.message

    decision = stop_experiment(**step_arguments(production, winner="control")).decision
    assert decision is not None
    assert decision["overridden"] == []


def _break_off(*_: Any, **__: Any) -> None:
    raise RuntimeError


def test_start__of_one_that_was_stopped__is_refused(production: Environment) -> None:
    stopped: Experiment = ExperimentFactory(key="e", stopped=True)
    with pytest.raises(DomainError) as error:
        start_experiment(**step_arguments(production))

    assert error.value.code == "invalid_transition"
    assert get_experiment("e", production).stopped_at == stopped.stopped_at
