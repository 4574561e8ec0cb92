"""Results of stopped experiments stand still once no user's window is open, so that old events may go."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import transaction

from events.removal import several
from experiments.metrics.frozen import definitions_of
from experiments.models import Experiment, Fold, Status
from experiments.results.kept import keep
from experiments.totals.folding import bring_up_to_date, fold, hold

_FOR_LATE_EVENTS = timedelta(days=1)
"""After the stop, at least: clients may send what happened before it later."""


def refresh_results(now: datetime) -> str:
    """Fold what is new into the results of every experiment that is not frozen, and freeze those whose time has come.

    A periodic task: readers then find little left to fold.
    """
    folded, frozen = 0, 0
    for experiment in Experiment.objects.measured_by_events().order_by("pk"):
        if experiment.frozen_at is not None or is_due(experiment, now):
            freeze(experiment, now)
            frozen += 1
        else:
            fold(experiment, now)
            folded += 1
    return f"brought {several(folded, 'experiment')} up to date and froze {several(frozen, 'other')}"


def is_due(experiment: Experiment, now: datetime) -> bool:
    """Whether it has been stopped for as long as the longest of its metrics looks, and for a day at least."""
    if experiment.stopped_at is None:
        return False
    spans = (each.delay + (each.window or timedelta(0)) for each in definitions_of(experiment))
    return now >= experiment.stopped_at + max([_FOR_LATE_EVENTS, *spans])


def freeze(experiment: Experiment, at: datetime) -> None:
    """Fold a stopped experiment for the last time, and keep how its figures came about.

    Explaining millions of events takes a while, in which nobody should have to wait for the totals. The events stay
    until the explanation is kept; one that broke off is made by the next call.
    """
    with transaction.atomic():
        [held] = hold([experiment.pk])
        fold_for_the_last_time(held, at)
    frozen = Experiment.objects.filter(pk=experiment.pk).exclude(frozen_at=None).first()
    if frozen is not None:
        keep(frozen)


def fold_for_the_last_time(held: Fold, at: datetime) -> None:
    """Freeze the totals of a stopped experiment whose fold is held. What `keep` keeps is for when that is committed."""
    bring_up_to_date(held, at)
    Experiment.objects.filter(pk=held.pk, status=Status.STOPPED, frozen_at=None).update(frozen_at=at)
