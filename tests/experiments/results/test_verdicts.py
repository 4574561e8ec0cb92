"""Verdicts that were reached are remembered, with the lifts of then and of the moment at which they ended."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
import time_machine
from django.urls import reverse

from config.models import Environment
from experiments.models import Experiment, ResultState
from experiments.results.analyse import analyse_experiment
from experiments.results.outcomes import refresh_outcomes
from experiments.results.types import ReachedVerdict
from tests.admin import sign_in, text_of
from tests.answers import data
from tests.conftest import NOON
from tests.experiments.lifecycle.shipping import record_visits, run_experiment

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)
FIRST, SECOND, THIRD = NOON + DAY, NOON + 2 * DAY, NOON + 3 * DAY
PATH = "/v1/experiments/e/results"


@pytest.fixture
def experiment(production: Environment) -> Experiment:
    """An experiment whose treatment is clearly better. `even_out` takes that back."""
    made = run_experiment(production)
    record_visits(production, "control", 150, 30)
    record_visits(production, "green", 150, 120)
    return made


def even_out(experiment: Experiment) -> None:
    record_visits(experiment.environment, "control", 600, 400)
    record_visits(experiment.environment, "green", 600, 370)


def look(experiment: Experiment, at: datetime, **view: Any) -> list[ReachedVerdict]:
    fresh = Experiment.objects.get(pk=experiment.pk)
    return list(analyse_experiment(fresh, at, **view).verdicts)


def test_verdict__reached__is_remembered_with_its_lift(experiment: Experiment) -> None:
    [verdict] = look(experiment, FIRST)
    [lift] = verdict.lifts

    assert (verdict.decision, verdict.variant, verdict.metric) == ("ship", "green", "purchase")
    assert (verdict.reached_at, verdict.ended_at, verdict.lifts_at_end) == (FIRST, None, ())
    assert (lift.variant, lift.estimate) == ("green", pytest.approx(3.0))
    assert lift.lower is not None
    assert lift.lower > 0
    assert look(experiment, SECOND) == [verdict]


def test_verdict__that_no_longer_stands__has_both_dates_and_both_intervals(experiment: Experiment) -> None:
    [reached] = look(experiment, FIRST)
    even_out(experiment)
    [ended] = look(experiment, SECOND)

    assert (ended.reached_at, ended.ended_at, ended.lifts) == (FIRST, SECOND, reached.lifts)
    [lift] = ended.lifts_at_end
    assert lift.lower is not None
    assert lift.lower < 0
    assert look(experiment, THIRD) == [ended]


def test_verdict__to_keep_running__is_not_remembered(production: Environment) -> None:
    assert look(run_experiment(production), FIRST) == []


def test_verdict__not_to_ship__has_the_lifts_of_all_treatments(production: Environment) -> None:
    experiment = run_experiment(production)
    record_visits(production, "control", 300, 200)
    record_visits(production, "green", 300, 60)
    [verdict] = look(experiment, FIRST)

    assert (verdict.decision, verdict.variant, [lift.variant for lift in verdict.lifts]) == (
        "do_not_ship",
        None,
        ["green"],
    )


@pytest.mark.parametrize("view", [{"control": "green"}, {"correction": "benjamini-hochberg"}, {"maturity": "all"}])
def test_verdict__in_another_view__is_shown_but_not_recorded(experiment: Experiment, view: dict[str, Any]) -> None:
    assert look(experiment, FIRST, **view) == []
    [verdict] = look(experiment, SECOND)
    assert look(experiment, THIRD, **view) == [verdict]


def test_verdict__at_an_earlier_moment_than_the_last_look__ends_nothing(experiment: Experiment) -> None:
    [verdict] = look(experiment, SECOND)
    even_out(experiment)

    assert look(experiment, FIRST) == [verdict]


def test_verdict__of_frozen_results__is_what_was_known(experiment: Experiment) -> None:
    [verdict] = look(experiment, FIRST)
    Experiment.objects.update(status="stopped", stopped_at=SECOND, frozen_at=SECOND)
    ResultState.objects.update(stopped_at=SECOND)
    even_out(experiment)

    assert look(experiment, THIRD) == [verdict]


def test_periodic_task__looks_at_running_experiments(experiment: Experiment) -> None:
    assert refresh_outcomes(FIRST) == "computed 1 outcome"
    even_out(experiment)
    refresh_outcomes(SECOND)

    [verdict] = look(experiment, THIRD)
    assert (verdict.reached_at, verdict.ended_at) == (FIRST, SECOND)


def test_results__over_http_and_on_the_page__say_what_was_taken_back(api: Any, experiment: Experiment) -> None:
    look(experiment, FIRST)
    even_out(experiment)
    with time_machine.travel(SECOND, tick=False):
        [reached] = data(api.get(PATH))["verdict"]["reached"]
    assert (reached["decision"], reached["variant"], reached["metric"]) == ("ship", "green", "purchase")
    assert reached["reachedAt"] < reached["endedAt"]
    assert reached["lifts"][0]["lower"] > 0 > reached["liftsAtEnd"][0]["lower"]

    text = text_of(sign_in().get(reverse("admin:experiments_experiment_results", args=[experiment.pk])))
    assert "the verdict was to ship green (purchase of green: +300" in text
    assert "it no longer is (purchase of green: " in text
