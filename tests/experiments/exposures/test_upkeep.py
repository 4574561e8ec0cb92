"""Keeping experiments up to date for a minute after each reading of their results."""

from __future__ import annotations

from uuid import UUID, uuid4

import pytest
from django.utils import timezone

from events.recording.ingest import NewEvent, new_id, record
from experiments.exposures import upkeep as module
from experiments.exposures.up_to_date import bring_up_to_date
from experiments.exposures.upkeep import SECONDS_AFTER_A_READING, Upkeep, refresh_running
from experiments.lifecycle.changes import stop_experiment
from experiments.models import AggregateState, Experiment
from experiments.results.computing import compute_results
from tests.conftest import ACTOR
from tests.factories import ExperimentFactory
from tests.outage import database_away

ONE, OTHER = uuid4(), uuid4()
NOW = 1_000.0


class Refreshing:
    """Stands in for the refresh of an experiment, and notes for which it is called."""

    def __init__(self, *, goes_on: bool = True) -> None:
        self.called: list[UUID] = []
        self._goes_on = goes_on

    def __call__(self, experiment_id: UUID) -> bool:
        self.called.append(experiment_id)
        return self._goes_on


@pytest.fixture
def upkeep(monkeypatch: pytest.MonkeyPatch) -> Upkeep:
    """An upkeep that notes what is read at NOW, whose thread does not run."""
    monkeypatch.setattr(module.time, "monotonic", lambda: NOW)
    upkeep = Upkeep()
    monkeypatch.setattr(upkeep, "_is_running", True)
    return upkeep


def test_work__experiments_read_lately__refreshes_them_until_a_minute_is_over(upkeep: Upkeep) -> None:
    upkeep.note(ONE)
    upkeep.note(OTHER)
    refreshing = Refreshing()
    upkeep.work(NOW + 1, refreshing)
    upkeep.work(NOW + SECONDS_AFTER_A_READING - 1, refreshing)
    assert refreshing.called == [ONE, OTHER, ONE, OTHER]
    upkeep.work(NOW + SECONDS_AFTER_A_READING, refreshing)
    upkeep.work(NOW + 2, refreshing)
    assert refreshing.called == [ONE, OTHER, ONE, OTHER]


def test_work__an_experiment_that_cannot_be_refreshed__is_forgotten_until_it_is_read_again(upkeep: Upkeep) -> None:
    upkeep.note(ONE)
    failing = Refreshing(goes_on=False)
    upkeep.work(NOW + 1, failing)
    upkeep.work(NOW + 2, failing)
    assert failing.called == [ONE]
    upkeep.note(ONE)
    upkeep.work(NOW + 3, failing)
    assert failing.called == [ONE, ONE]


def test_work__read_again_during_the_refresh__goes_on(upkeep: Upkeep, monkeypatch: pytest.MonkeyPatch) -> None:
    upkeep.note(ONE)

    def read_meanwhile(experiment_id: UUID) -> bool:
        monkeypatch.setattr(module.time, "monotonic", lambda: NOW + 1)
        upkeep.note(experiment_id)
        return False

    upkeep.work(NOW + 1, read_meanwhile)
    refreshing = Refreshing()
    upkeep.work(NOW + 2, refreshing)
    assert refreshing.called == [ONE]


def test_note__without_the_thread_of_a_server__does_nothing() -> None:
    upkeep, refreshing = Upkeep(), Refreshing()
    upkeep.note(ONE)
    upkeep.work(NOW, refreshing)
    assert refreshing.called == []


@pytest.fixture
def running(db: None) -> Experiment:
    """A running experiment with one user, whose conversion is not in the totals yet."""
    experiment: Experiment = ExperimentFactory(metrics=["purchase"], running=True)
    report(experiment, "seen", {"experimentId": experiment.key, "variant": "green"})
    bring_up_to_date(experiment, timezone.now())
    report(experiment, "purchase", {})
    return experiment


def report(experiment: Experiment, name: str, properties: dict[str, object]) -> None:
    now = timezone.now()
    record([NewEvent(new_id(), "ada", name, now, now, properties)], experiment.environment)


def mark_of(experiment: Experiment) -> str:
    return AggregateState.objects.get(pk=experiment.pk).mark


@pytest.mark.django_db(transaction=True)  # what the same transaction has written would count as new again
def test_refresh__new_event_of_a_running_experiment__is_added_before_anyone_reads(running: Experiment) -> None:
    assert refresh_running(running.pk)
    mark = mark_of(running)
    assert compute_results(running, timezone.now())["green"].conversions == 1
    assert mark_of(running) == mark  # the reading had nothing left to do


def test_refresh__stopped_or_deleted__ends_the_upkeep(running: Experiment) -> None:
    where = {"key": running.key, "environment": running.environment}
    stop_experiment(**where, actor=ACTOR, at=timezone.now(), stopped_at=timezone.now())
    assert not refresh_running(running.pk)
    assert not refresh_running(uuid4())


def test_refresh__database_away__ends_the_upkeep_quietly(
    running: Experiment, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module.connection, "close", lambda: None)  # the transaction of the test would be lost
    with database_away():
        assert not refresh_running(running.pk)
    assert caplog.messages == []


def test_refresh__defect__ends_the_upkeep_and_is_logged(
    running: Experiment, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "refresh", lambda *_: 1 / 0)
    assert not refresh_running(running.pk)
    assert caplog.messages == ["Cannot keep the results of an experiment up to date"]


def test_reading__of_a_running_experiment__is_noted(running: Experiment, monkeypatch: pytest.MonkeyPatch) -> None:
    noted: list[UUID] = []
    monkeypatch.setattr(module.upkeep, "note", noted.append)
    compute_results(running, timezone.now())
    assert noted == [running.pk]
