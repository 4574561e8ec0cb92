"""Undoing a start while users are exposed: the undo is refused, or none of them is an exposure of a draft."""

from __future__ import annotations

from threading import Event as Signal

import pytest
from django.db import connection, transaction
from django.utils import timezone

from config import snapshot
from config.change_log.reversion import undo_write
from config.errors import DomainError
from config.models import Change, Environment
from events.recording import record
from experiments.exposures.assignment import get_variant
from experiments.exposures.recording import assign
from experiments.lifecycle.changes import get_experiment, start_experiment
from experiments.models import Experiment, Exposure
from tests.experiments.lifecycle.undos import ADA, see
from tests.factories import ExperimentFactory
from tests.threads import SECONDS, Threads

pytestmark = pytest.mark.django_db(transaction=True)


def begin() -> tuple[Environment, Experiment]:
    production = Environment.objects.get(key="production")
    ExperimentFactory(key="e")
    started = start_experiment(key="e", environment=production, actor=ADA, now=timezone.now())
    return production, started


def undo() -> None:
    undo_write(Change.objects.filter(kind="experiment").latest("revision").revision, actor=ADA, now=timezone.now())


def test_undo__report_while_it_is_under_way__waits_and_is_no_exposure(threads: Threads) -> None:
    production, _ = begin()
    with transaction.atomic():
        undo()
        recording = threads.start(record, [see("u", timezone.now())], production)
        with pytest.raises(TimeoutError):
            recording.result(0.3)
    recording.result(SECONDS)
    assert (get_experiment("e", production).status, Exposure.objects.count()) == ("draft", 0)


def test_undo__report_under_way_that_saw_it_running__is_waited_for(threads: Threads) -> None:
    production, _ = begin()
    with transaction.atomic():
        record([see("u", timezone.now())], production)
        undoing = threads.start(undo)
        with pytest.raises(TimeoutError):
            undoing.result(0.3)
    with pytest.raises(DomainError, match="1 user has been exposed since"):
        undoing.result(SECONDS)
    assert (get_experiment("e", production).status, Exposure.objects.count()) == ("running", 1)


def test_undo__assignment_while_it_is_under_way__waits_and_is_refused(threads: Threads) -> None:
    production, experiment = begin()
    with transaction.atomic():
        undo()
        assigning = threads.start(assign, experiment.pk, "u", "green", timezone.now())
        with pytest.raises(TimeoutError):
            assigning.result(0.3)
    with pytest.raises(DomainError, match="its start undone"):
        assigning.result(SECONDS)
    assert (get_experiment("e", production).status, Exposure.objects.count()) == ("draft", 0)


@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has one writer at a time")
@pytest.mark.parametrize("first", ["undo", "users"])
def test_undo__while_many_are_assigned__loses_and_leaves_none(threads: Threads, first: str) -> None:
    production, _ = begin()
    snapshot.refresh()
    over, begun = Signal(), Signal()

    def ask(number: int) -> list[str]:
        answered: list[str] = []
        for count in range(10_000):
            if over.is_set():
                break
            try:
                get_variant(key="e", environment=production, user_id=f"{number}-{count}", now=timezone.now())
            except DomainError:
                break
            answered.append(f"{number}-{count}")
            begun.set()
        return answered

    if first == "undo":
        undoing = threads.start(undo)
    asking = [threads.start(ask, number) for number in range(4)]
    if first == "users":
        begun.wait(SECONDS)
        undoing = threads.start(undo)
    refusal = undoing.exception(SECONDS)
    over.wait(0.2)
    over.set()
    answered = [user for thread in asking for user in thread.result(SECONDS)]

    assert sorted(Exposure.objects.values_list("user_id", flat=True)) == sorted(answered)
    status = get_experiment("e", production).status
    assert (status == "running") == isinstance(refusal, DomainError) == bool(answered)
    if first == "users":
        assert status == "running"
