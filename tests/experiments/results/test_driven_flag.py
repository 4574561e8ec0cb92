"""Results while the driven flag is off: since when it is, what the verdict says, and what a stop stores."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
import time_machine
from django.db import connection
from django.test.utils import CaptureQueriesContext

from config.models import Change, Environment
from experiments.lifecycle.changes import get_experiment, reopen_experiment, stop_experiment
from experiments.models import Experiment
from experiments.results.analyse import analyse_experiment
from experiments.results.driven_flag import find_flag_off, off_flags
from experiments.stats.outcomes import Decision
from experiments.stats.types import ReasonCode
from flags.changes.flag_changes import create_flag, update_flag
from tests.answers import data
from tests.conftest import ACTOR, NOON
from tests.experiments.lifecycle.shipping import record_clear_winner, run_experiment
from tests.factories import ExperimentFactory

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)
OFF_AT = NOON + 30 * HOUR


def update(environment: Environment, at: datetime, key: str = "button", **changes: Any) -> None:
    update_flag(key=key, environment=environment, changes=changes, actor=ACTOR, now=at)
    # The log has later changes already, those that made the database, and never goes back in time.
    newest = Change.objects.latest_revision()
    Change.objects.filter(pk=newest).update(at=at)


def switch(environment: Environment, at: datetime, *, enabled: bool) -> None:
    update(environment, at, enabled=enabled)


@pytest.fixture
def experiment(production: Environment) -> Experiment:
    """A running experiment with a clear winner."""
    experiment = run_experiment(production)
    record_clear_winner(production)
    return experiment


def reasons(experiment: Experiment, at: datetime) -> tuple[Decision, list[str]]:
    verdict = analyse_experiment(experiment, at).verdict
    return verdict.decision, [reason.message for reason in verdict.reasons if reason.code == ReasonCode.FLAG_OFF]


def test_verdict__flag_off_for_less_than_a_day__stays_and_says_so(
    experiment: Experiment, production: Environment
) -> None:
    switch(production, OFF_AT, enabled=False)
    assert reasons(experiment, OFF_AT + 24 * HOUR - timedelta(seconds=1)) == (
        Decision.SHIP,
        [
            "The flag button has been off since 1 Feb 2026, 18:00 UTC: no user sees a variant. If it stays off for a "
            "day, the verdict is to check the data."
        ],
    )


def test_verdict__flag_off_for_a_day__is_to_check_the_data(experiment: Experiment, production: Environment) -> None:
    switch(production, OFF_AT, enabled=False)
    assert reasons(experiment, OFF_AT + 24 * HOUR) == (
        Decision.CHECK_DATA,
        [
            "The flag button has been off since 1 Feb 2026, 18:00 UTC: no user has seen a variant for 24 hours. "
            "Switch it on, or stop the experiment."
        ],
    )
    assert "for 3 days." in reasons(experiment, OFF_AT + 80 * HOUR)[1][0]


def test_verdict__flag_on_again__is_as_before(experiment: Experiment, production: Environment) -> None:
    switch(production, OFF_AT, enabled=False)
    switch(production, OFF_AT + 30 * HOUR, enabled=True)
    assert reasons(experiment, OFF_AT + 80 * HOUR) == (Decision.SHIP, [])


def test_off_since__is_the_newest_time_that_it_was_switched_off_here(
    experiment: Experiment, production: Environment, staging: Environment
) -> None:
    switch(production, NOON + HOUR, enabled=False)
    switch(production, NOON + 2 * HOUR, enabled=True)
    switch(production, OFF_AT, enabled=False)
    switch(staging, OFF_AT + HOUR, enabled=True)
    switch(staging, OFF_AT + 2 * HOUR, enabled=False)
    update(production, OFF_AT + 3 * HOUR, description="Edited")
    off = find_flag_off(experiment, OFF_AT + 4 * HOUR)
    assert off is not None
    assert (off.key, off.since, off.duration) == ("button", OFF_AT, 4 * HOUR)


def test_off_since__flag_that_was_off_before_the_start__is_the_start(production: Environment) -> None:
    create_flag(key="other", environment=production, enabled=True, actor=ACTOR, now=NOON)
    update(production, NOON - 2 * HOUR, "other", enabled=False)
    served = {"key": "other", "serves": {"control": False, "green": True}}
    experiment = ExperimentFactory(flag=served, running=True)
    off = find_flag_off(experiment, NOON + HOUR)
    assert off is not None
    assert (off.since, off.duration) == (NOON, HOUR)


def test_off_since__draft_or_no_flag__is_nothing(production: Environment) -> None:
    create_flag(key="other", environment=production, actor=ACTOR, now=NOON)
    draft = ExperimentFactory(flag={"key": "other", "serves": {"control": False, "green": True}})
    assert find_flag_off(draft, NOON) is None
    assert find_flag_off(ExperimentFactory(running=True), NOON) is None


@pytest.mark.parametrize(("enabled", "queries"), [(True, 1), (False, 2)])
def test_off_since__takes_few_queries(
    experiment: Experiment, production: Environment, enabled: bool, queries: int
) -> None:
    if not enabled:
        switch(production, OFF_AT, enabled=False)
    assert experiment.environment == production  # which every other part of the results reads as well
    with CaptureQueriesContext(connection) as captured:
        find_flag_off(experiment, OFF_AT)
    assert len(captured) == queries


@pytest.mark.parametrize("winner", [None, "green"])
def test_stop__of_an_experiment_whose_flag_is_off__keeps_its_verdict(
    experiment: Experiment, production: Environment, winner: str | None
) -> None:
    switch(production, OFF_AT, enabled=False)
    stopped_at = OFF_AT + 25 * HOUR
    step: dict[str, Any] = {"key": "e", "environment": production, "actor": ACTOR, "now": stopped_at}
    more = {"winner": winner, "reason": "Seen enough", "enable": False} if winner else {}
    stop_experiment(**step, **more)
    switch(production, stopped_at + HOUR, enabled=True)
    stopped = get_experiment("e", production)
    assert reasons(stopped, stopped_at + 48 * HOUR) == (
        Decision.CHECK_DATA,
        ["The flag button was off from 1 Feb 2026, 18:00 UTC until the end: no user saw a variant for 25 hours."],
    )
    if winner:
        assert stopped.decision is not None
        assert stopped.decision["verdict"] == {"decision": "check_data", "variant": None}


def test_reopen__after_a_stop_with_the_flag_off__reads_the_flag_again(
    experiment: Experiment, production: Environment
) -> None:
    switch(production, OFF_AT, enabled=False)
    step: dict[str, Any] = {"key": "e", "environment": production, "actor": ACTOR, "now": OFF_AT + HOUR}
    stop_experiment(**step)
    reopened = reopen_experiment(**step)
    assert reopened.decision is None
    assert reasons(reopened, OFF_AT + 2 * HOUR)[0] == Decision.SHIP
    switch(production, OFF_AT + 3 * HOUR, enabled=True)
    assert reasons(reopened, OFF_AT + 80 * HOUR) == (Decision.SHIP, [])


def test_api__flag_off__says_since_when(experiment: Experiment, production: Environment, api: Any) -> None:
    path = "/v1/experiments/e/results"
    assert data(api.get(path))["guards"]["flagOffSince"] is None
    with time_machine.travel(OFF_AT + 25 * HOUR, tick=False):
        switch(production, OFF_AT, enabled=False)
        answer = data(api.get(path))
    assert answer["guards"]["flagOffSince"] == "2026-02-01T18:00:00.000000Z"
    assert answer["verdict"]["decision"] == "check_data"
    assert [reason["code"] for reason in answer["verdict"]["reasons"]] == ["flag_off"]


def test_off_flags__are_those_that_running_experiments_of_the_environment_drive(
    experiment: Experiment, production: Environment, staging: Environment
) -> None:
    ExperimentFactory(key="without", running=True)
    create_flag(key="idle", environment=production, actor=ACTOR, now=NOON)
    ExperimentFactory(key="draft", flag={"key": "idle", "serves": {"control": False, "green": True}})
    switch(staging, OFF_AT, enabled=True)
    assert off_flags(Experiment.objects.all(), production) == set()
    switch(production, OFF_AT, enabled=False)
    assert off_flags(Experiment.objects.all(), production) == {"button"}
