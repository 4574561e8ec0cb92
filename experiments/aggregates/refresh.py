"""Bringing the totals of an experiment in line with everything that was committed before, whoever committed it when.

`config.database.commit_order` says which rows are new. Users with new rows are computed afresh from all that
that is stored of them, so that no figure depends on the order in which things became known.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import transaction

from config.database.commit_order import is_mark_of_here, take_mark
from experiments.aggregates.changed_users import find_beyond, find_changed_users, has_changes
from experiments.aggregates.dialects import planned
from experiments.aggregates.statements import is_quicker_in_one_pass
from experiments.aggregates.update import AggregateUpdater
from experiments.models import AggregateState, Experiment
from experiments.models.locks import lock_aggregates

_MARK_GROWS_OLD = timedelta(minutes=1)
"""After this it is taken anew though nothing happened, so that the next look need not go far back."""


def refresh(experiment: Experiment, at: datetime) -> AggregateState:
    """Make the totals and sums of a started experiment exact for everything that was committed before this call.

    In a transaction of its own, or the caller's; where nothing is new it writes nothing. `at` is the present moment.
    """
    stored = AggregateState.objects.defer("kept").filter(experiment=experiment).first()
    if stored is not None and _is_current(stored, experiment, at):
        return stored
    with transaction.atomic():
        [held] = lock_aggregates([experiment.pk])
        # Of many who wait for it, the first does the work of all.
        return held if held.mark and _is_current(held, experiment, at) else refresh_locked(held, at)


def refresh_locked(held: AggregateState, at: datetime) -> AggregateState:
    """Do that to an experiment whose fold is held, in the caller's transaction.

    Its statements may see later moments one after another: totals come from one statement each, sums from the totals
    alone, and what came after the mark is found by the next fold once more.
    """
    experiment = Experiment.objects.get(pk=held.pk)
    if experiment.frozen_at is None:
        mark = take_mark()
        # To compile so many sums takes longer than they take, and in parallel they take half as long.
        with planned(jit="off", parallel_tuple_cost="0"):
            _compute_what_is_new(held, experiment)
        held.mark, held.folded_at, held.stopped_at = mark, at, experiment.stopped_at
        held.save()
    return held


def _is_current(stored: AggregateState, experiment: Experiment, at: datetime) -> bool:
    if experiment.frozen_at is not None:
        return True
    if not stored.mark or stored.stopped_at != experiment.stopped_at or not is_mark_of_here(stored.mark):
        return False
    if stored.folded_at is None or at - stored.folded_at > _MARK_GROWS_OLD:
        return False
    return not has_changes(experiment, stored.mark)


def _compute_what_is_new(held: AggregateState, experiment: Experiment) -> None:
    updater = AggregateUpdater(held, experiment)
    if not held.mark or not is_mark_of_here(held.mark):  # what is new cannot be told, as at the first time
        updater.compute_all()
        return
    users = find_changed_users(experiment, held.mark)
    if experiment.stopped_at is not None and held.stopped_at is None:
        users |= find_beyond(experiment, experiment.stopped_at)
    if is_quicker_in_one_pass(experiment, len(users)):
        updater.compute_all()
    elif users:
        updater.compute(users)
