"""Bringing the values and sums of an experiment in line with all committed events and exposures, before they are read.

`config.database.commit_order` says which rows are new. The values of users with new rows are computed again from all
rows of these users, so that no number depends on the order in which events arrived.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta

from django.db import transaction

from config.database.commit_order import take_watermark
from config.database.connections import long_statements
from config.database.planning import WITHOUT_JIT, planned
from experiments.metrics.definition import definitions_of
from experiments.models import Experiment, ResultState, Status
from experiments.models.locks import lock_results
from experiments.results.changed_users import (
    VERSION,
    find_beyond,
    find_changed_users,
    has_changes,
    usable_watermark,
)
from experiments.results.forced_exposures import remove_late_forced_exposures
from experiments.results.series import has_day_values
from experiments.results.update import Update, is_quicker_in_one_pass

_OLD_AFTER = timedelta(minutes=1)
"""An older watermark is replaced even where nothing happened, so that the next refresh need not look far back."""


@long_statements()
def bring_up_to_date(experiment: Experiment, now: datetime) -> None:
    """Make values and sums exact for everything that was committed before this call.

    Everything that reads them calls this first: results, the planner, calibrations and the periodic task. It writes
    only where something is new, in transactions of its own, and nothing for a draft or for frozen results.
    """
    if experiment.status != Status.DRAFT:
        remove_late_forced_exposures(experiment)
        refresh(experiment, now)


@long_statements()
def bring_series_up_to_date(experiment: Experiment, now: datetime) -> None:
    """Do the same, and have the changes of all sums by day from now on.

    The first call takes one pass over all events of the metrics without a window.
    """
    bring_up_to_date(experiment, now)
    metrics = {number for number, metric in enumerate(definitions_of(experiment)) if has_day_values(metric)}
    states = ResultState.objects.filter(experiment=experiment)
    if metrics.issubset(states.values_list("daily_metrics", flat=True).first() or ()):
        return
    with transaction.atomic():
        [state] = lock_results([experiment.pk])
        if missing := metrics.difference(state.daily_metrics):
            _begin_series(refresh_locked(state, now), missing)


def _begin_series(state: ResultState, metrics: Collection[int]) -> None:
    """Store the values of days for these metrics, unless the events are no longer there."""
    experiment = Experiment.objects.measured_by_events().filter(pk=state.experiment_id).first()
    if experiment is not None:
        with planned(**WITHOUT_JIT):
            Update(state, experiment).begin_series(metrics)
        state.save(update_fields=["daily_metrics"])


def refresh(experiment: Experiment, now: datetime) -> ResultState:
    """Refresh a started experiment in a transaction of its own, or the caller's.

    It writes nothing where nothing is new.
    """
    stored = ResultState.objects.defer("archive", "reading").filter(experiment=experiment).first()
    if stored is not None:
        experiment.result_state = stored  # so that those who read the values need not look it up
    if stored is not None and _is_current(stored, experiment, now):
        return stored
    with transaction.atomic():
        [state] = lock_results([experiment.pk])
        # Of many callers that waited for the lock, the first has done the work of all.
        has_waited = state.watermark != (stored.watermark if stored else "")
        return state if has_waited and _is_current(state, experiment, now) else refresh_locked(state, now)


def refresh_locked(state: ResultState, now: datetime) -> ResultState:
    """Refresh an experiment whose results are locked, in the caller's transaction.

    Each of its statements may see a later moment than the one before. That does no harm: the values of a user come from
    one statement, sums come from the values alone, and the next refresh finds all rows after the watermark again.
    """
    experiment = Experiment.objects.get(pk=state.experiment_id)
    if experiment.frozen_at is None and experiment.started_at is not None:  # its start may just have been undone
        watermark = take_watermark()
        with planned(**WITHOUT_JIT, parallel_tuple_cost="0"):  # parallel workers halve the time of sums
            _update_changed_users(state, experiment)
        state.watermark, state.refreshed_at = f"{VERSION}{watermark}", now
        state.stopped_at = experiment.counting_ends_at
        state.save()
    return state


def _is_current(stored: ResultState, experiment: Experiment, now: datetime) -> bool:
    if experiment.frozen_at is not None:
        return True
    if stored.stopped_at != experiment.counting_ends_at:
        return False
    if stored.refreshed_at is None or now - stored.refreshed_at > _OLD_AFTER:
        return False
    watermark = usable_watermark(stored.watermark)
    return watermark is not None and not has_changes(experiment, watermark)


def _update_changed_users(state: ResultState, experiment: Experiment) -> None:
    update, watermark = Update(state, experiment), usable_watermark(state.watermark)
    if watermark is None or state.stopped_at not in (None, experiment.counting_ends_at):
        update.compute_all()
        return
    users = find_changed_users(experiment, watermark)
    if experiment.stopped_at is not None and state.stopped_at is None:
        users |= find_beyond(experiment, experiment.stopped_at)
    if is_quicker_in_one_pass(experiment, len(users)):
        update.compute_all()
    elif users:
        update.compute(users)
        update.store()
