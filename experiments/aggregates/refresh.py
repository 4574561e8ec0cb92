"""Bringing the totals and sums of an experiment in line with all committed events and exposures.

`config.database.commit_order` says which rows are new. The totals of users with new rows are computed again from all
rows of these users, so that no number depends on the order in which events arrived.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import transaction

from config.database.commit_order import are_divided, take_mark
from events.models import Event
from experiments.aggregates.changed_users import (
    find_beyond,
    find_changed_users,
    find_users_to_compute_again,
    find_users_with_another_past,
    has_changes,
)
from experiments.aggregates.dialects import planned
from experiments.aggregates.marks import usable_mark, with_version
from experiments.aggregates.series_users import begin_of, has_series, until_of
from experiments.aggregates.statements import is_quicker_in_one_pass
from experiments.aggregates.update import AggregateUpdater
from experiments.models import AggregateState, Experiment
from experiments.models.locks import lock_aggregates

_MARK_GROWS_OLD = timedelta(minutes=1)
"""An older mark is replaced even where nothing happened, so that the next refresh need not look far back."""


def refresh(experiment: Experiment, at: datetime) -> AggregateState:
    """Make the totals and sums of a started experiment exact for everything that was committed before this call.

    It works in a transaction of its own, or the caller's, and writes nothing where nothing is new. `at` is the present
    moment. Readers call `experiments.exposures.up_to_date.bring_up_to_date` instead.
    """
    stored = AggregateState.objects.defer("kept", "reading").filter(experiment=experiment).first()
    if stored is not None and _is_current(stored, experiment, at):
        return stored
    with transaction.atomic():
        [state] = lock_aggregates([experiment.pk])
        # Of many callers that waited for the lock, the first has done the work of all.
        has_waited = state.mark != (stored.mark if stored else "")
        return state if has_waited and _is_current(state, experiment, at) else refresh_locked(state, at)


def refresh_locked(state: AggregateState, at: datetime) -> AggregateState:
    """Refresh an experiment whose aggregates are locked, in the caller's transaction.

    Each of its statements may see a later moment than the one before. That does no harm: the totals of a user come from
    one statement, sums come from the totals alone, and the next refresh finds all rows after the mark again.
    """
    experiment = Experiment.objects.get(pk=state.pk)
    if experiment.frozen_at is None and experiment.started_at is not None:  # its start may just have been undone
        mark = take_mark(Event._meta.db_table)
        # Compiling so many sums takes longer than computing them, and parallel workers halve the time.
        with planned(jit="off", parallel_tuple_cost="0"):
            _update_changed_users(state, experiment, mark)
        state.mark, state.folded_at, state.stopped_at = with_version(mark), at, experiment.stopped_at
        state.save()
    return state


def _is_current(stored: AggregateState, experiment: Experiment, at: datetime) -> bool:
    if experiment.frozen_at is not None:
        return True
    if stored.stopped_at != experiment.stopped_at:
        return False
    if stored.folded_at is None or at - stored.folded_at > _MARK_GROWS_OLD:
        return False
    mark = usable_mark(stored.mark)
    return mark is not None and not has_changes(experiment, mark)


def _update_changed_users(state: AggregateState, experiment: Experiment, until: str) -> None:
    updater, since = AggregateUpdater(state, experiment, until), usable_mark(state.mark)
    if since is None:
        updater.compute_all()
        return
    adds = are_divided(since, until)
    users = find_users_to_compute_again(experiment, since, until) if adds else find_changed_users(experiment, since)
    if experiment.stopped_at is not None and state.stopped_at is None:
        users |= find_beyond(experiment, experiment.stopped_at)
    if is_quicker_in_one_pass(experiment, len(users)):
        updater.compute_all()
        return
    if has_series(state):
        updater.note_outdated(find_users_with_another_past(experiment, since, begin_of(until_of(state))))
    if adds:
        users |= updater.add_new_events(since)
    if users:
        updater.compute(users)
    updater.store()
