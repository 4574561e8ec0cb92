"""Freezing: when it is due, what no longer changes, and how a freeze that broke off is repeated."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from config.models import Environment
from events.recording import NewEvent, new_id, record
from events.removal import plan_purge
from experiments.models import Experiment, ResultState
from experiments.results import archive
from experiments.results.analyse import VariantResult, analyse_experiment, compute_results, explain_metric
from experiments.results.archive import freeze, refresh_results
from tests.conftest import NOON
from tests.factories import ExperimentFactory

pytestmark = pytest.mark.django_db

TWO_DAYS_LATER = NOON + timedelta(days=2)


def make_event(name: str, user: str = "u", second: int = 1, **properties: str) -> NewEvent:
    moment = NOON + timedelta(seconds=second)
    return NewEvent(new_id(), user, name, moment, moment, properties)


@pytest.fixture
def stopped(production: Environment) -> Experiment:
    """An experiment stopped an hour after NOON, with one user who converted in green."""
    experiment: Experiment = ExperimentFactory(key="e", stopped=True)
    record([make_event("seen", experimentId="e", variant="green"), make_event("purchase", second=2)], production)
    return experiment


def test_refresh_results__less_than_a_day_after_the_stop__refreshes(stopped: Experiment) -> None:
    report = refresh_results(NOON + timedelta(hours=24, minutes=59))

    assert report == "brought 1 experiment up to date and froze 0 others"
    assert Experiment.objects.get().frozen_at is None


def test_refresh_results__a_day_after_the_stop__freezes_once(stopped: Experiment) -> None:
    assert refresh_results(NOON + timedelta(hours=25)) == "brought 0 experiments up to date and froze 1 other"
    assert refresh_results(TWO_DAYS_LATER) == "brought 0 experiments up to date and froze 0 others"
    assert Experiment.objects.get().frozen_at == NOON + timedelta(hours=25)


def test_freeze__running__refreshes_and_freezes_nothing(production: Environment) -> None:
    experiment = ExperimentFactory(running=True)
    freeze(experiment, TWO_DAYS_LATER)

    assert Experiment.objects.get().frozen_at is None
    assert ResultState.objects.get().archive is None


def test_freeze__events_that_come_later__change_neither_figure_nor_explanation(
    stopped: Experiment, production: Environment
) -> None:
    freeze(stopped, TWO_DAYS_LATER)
    frozen = Experiment.objects.get()
    before = explain_metric(frozen, "purchase", "green", now=TWO_DAYS_LATER)
    guards = analyse_experiment(frozen, TWO_DAYS_LATER, has_assignment_audit=True).guards
    late = [make_event("seen", "v", experimentId="e", variant=variant) for variant in ("green", "purple")]
    record([*late, make_event("purchase", "v", second=2), make_event("purchase", second=0)], production)

    assert compute_results(frozen, TWO_DAYS_LATER)["green"] == VariantResult(1, 1)
    assert explain_metric(frozen, "purchase", "green", now=TWO_DAYS_LATER) == before
    assert analyse_experiment(frozen, TWO_DAYS_LATER, has_assignment_audit=True).guards == guards
    assert before["value"] == 1


def test_freeze__that_broke_off_while_explaining__holds_the_events_until_the_next_one(
    stopped: Experiment, production: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    def break_off(*_: Any) -> None:
        raise RuntimeError

    with monkeypatch.context() as patched:
        patched.setattr(archive, "explain_all", break_off)
        with pytest.raises(RuntimeError):
            freeze(stopped, TWO_DAYS_LATER)
    assert [hold.by for hold in plan_purge(production, TWO_DAYS_LATER).holds] == ["experiment e"]

    assert refresh_results(TWO_DAYS_LATER + timedelta(days=1)).endswith("froze 1 other")
    assert plan_purge(production, TWO_DAYS_LATER).holds == []
    assert Experiment.objects.get().frozen_at == TWO_DAYS_LATER
