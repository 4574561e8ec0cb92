"""Shipping a winner onto a flag that is off: somebody must say whether to switch it on, and a reopening undoes it."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.management import call_command

from config.documents import Document
from config.errors import DetailCode, DomainError, ErrorCode, ValidationFailed
from config.models import Change, Environment
from experiments.lifecycle.changes import reopen_experiment, stop_experiment
from experiments.models import Experiment
from experiments.results.analyse import analyse_experiment
from flags.changes.flag_changes import get_flag, update_flag
from flags.models import Flag
from tests.answers import data, error
from tests.experiments.lifecycle.shipping import (
    A_DAY_LATER,
    OWN,
    record_clear_winner,
    run_experiment,
    step_arguments,
    stored_state,
)
from tests.factories import ExperimentFactory, FlagFactory

pytestmark = pytest.mark.django_db

SHIPPED = [{"type": "percentage", "percentage": 100}, *OWN]
STOP = "/v1/experiments/e/stop"


def switch(environment: Environment, *, enabled: bool) -> None:
    update_flag(**{**step_arguments(environment), "key": "button"}, changes={"enabled": enabled})


def flag_in(environment: Environment) -> Flag:
    return get_flag("button", environment)


def ship(environment: Environment, **values: Any) -> Experiment:
    return stop_experiment(**step_arguments(environment), winner="green", reason="Seen enough", **values)


@pytest.fixture
def off(production: Environment) -> Experiment:
    """A running experiment with a clear winner, whose flag was switched off."""
    experiment = run_experiment(production)
    record_clear_winner(production)
    switch(production, enabled=False)
    return experiment


def test_ship__flag_off__demands_to_say_what_happens_to_it(off: Experiment, production: Environment) -> None:
    analyse_experiment(off, A_DAY_LATER)  # which a refused stop does before, too
    before = stored_state(production)
    with pytest.raises(ValidationFailed) as refused:
        ship(production)
    [detail] = refused.value.details
    assert (detail.field, detail.code) == ("enable", DetailCode.REQUIRED)
    assert detail.message.startswith("The flag button is off. Send true to switch it on, so that it serves the winner")
    assert "or false to leave it off" in detail.message
    assert stored_state(production) == before


def test_ship__flag_switched_on__is_a_change_of_its_own_in_the_same_transaction(
    off: Experiment, production: Environment
) -> None:
    before = Change.objects.latest_revision()
    ship(production, enable=True)
    flag = flag_in(production)
    assert (flag.enabled, flag.rules) == (True, SHIPPED)
    rules, switched, stopped = Change.objects.since(before)
    assert [change.kind for change in (rules, switched, stopped)] == ["flag", "flag", "experiment"]
    assert _states(rules) == [(False, "experiment"), (False, "percentage")]
    assert _states(switched) == [(False, "percentage"), (True, "percentage")]
    assert rules.after == switched.before
    assert len({change.at for change in (rules, switched, stopped)}) == 1


def _states(change: Change) -> list[tuple[bool, str]]:
    """Return whether the flag was on, and the type of its first rule, before and after a change."""
    documents: list[Document] = [change.before or {}, change.after or {}]
    states = [document["states"]["production"] for document in documents]
    return [(state["enabled"], state["rules"][0]["type"]) for state in states]


def test_ship__flag_left_off__serves_the_winner_once_it_is_on(off: Experiment, production: Environment) -> None:
    ship(production, enable=False)
    assert (flag_in(production).enabled, flag_in(production).rules) == (False, SHIPPED)


@pytest.mark.parametrize("enable", [True, False])
def test_reopen__after_shipping_onto_a_flag_that_was_off__restores_it_exactly(
    off: Experiment, production: Environment, enable: bool
) -> None:
    before = flag_in(production)
    ship(production, enable=enable)
    reopen_experiment(**step_arguments(production))
    after = flag_in(production)
    assert (after.enabled, after.rules) == (False, before.rules)


def test_reopen__flag_switched_off_since__is_refused(off: Experiment, production: Environment) -> None:
    ship(production, enable=True)
    switch(production, enabled=False)
    with pytest.raises(DomainError) as refused:
        reopen_experiment(**step_arguments(production))
    assert refused.value.code == ErrorCode.EXPERIMENT_LOCKED


@pytest.mark.parametrize("enable", [True, False])
def test_ship__flag_that_is_on__must_not_be_switched_on(production: Environment, enable: bool) -> None:
    run_experiment(production)
    record_clear_winner(production)
    with pytest.raises(ValidationFailed, match="enable: Must be left out: the flag button is on already"):
        ship(production, enable=enable)
    ship(production)
    assert flag_in(production).enabled is True


def test_ship__without_a_flag__has_nothing_to_switch_on(production: Environment) -> None:
    ExperimentFactory(key="e", running=True, minimum_days=0)
    with pytest.raises(ValidationFailed, match="enable: Must be left out: the experiment drives no flag"):
        ship(production, enable=True)


def test_stop__without_a_winner__leaves_the_flag_as_it_is(off: Experiment, production: Environment) -> None:
    with pytest.raises(ValidationFailed, match="enable: Must be left out without a winner"):
        stop_experiment(**step_arguments(production), enable=False)
    stop_experiment(**step_arguments(production))
    assert flag_in(production).enabled is False


def test_ship__draft_with_a_flag_that_is_off__is_no_running_experiment(production: Environment) -> None:
    FlagFactory(key="button")
    ExperimentFactory(key="e", flag={"key": "button", "serves": {"control": False, "green": True}})
    with pytest.raises(DomainError) as refused:
        ship(production)
    assert refused.value.code == ErrorCode.INVALID_TRANSITION


def test_api__flag_off__takes_the_answer_in_the_body(off: Experiment, production: Environment, api: Any) -> None:
    sent = {"winner": "green", "reason": "Seen enough"}
    [detail] = error(api.post(STOP, sent), 400, "validation_failed")["details"]
    assert (detail["field"], detail["code"]) == ("enable", "required")
    [detail] = error(api.post(STOP, {**sent, "enable": "true"}), 400, "validation_failed")["details"]
    assert (detail["field"], detail["code"]) == ("enable", "invalid_type")
    assert data(api.post(STOP, {**sent, "enable": True}))["winner"] == "green"
    assert data(api.get("/v1/flags/button"))["enabled"] is True
    assert data(api.post("/v1/experiments/e/reopen"))["status"] == "running"
    assert data(api.get("/v1/flags/button"))["enabled"] is False


@pytest.mark.parametrize(("option", "enabled"), [("--enable", True), ("--no-enable", False)])
def test_command__flag_off__takes_the_answer_as_an_option(
    off: Experiment, production: Environment, option: str, enabled: bool
) -> None:
    call_command("stop_experiment", "e", "--winner", "green", "--reason", "Seen enough", option)
    assert flag_in(production).enabled is enabled
