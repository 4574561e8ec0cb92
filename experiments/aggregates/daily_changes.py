"""Daily changes: by how much the sums of metrics without a window change on each day, stored for reading series.

They are stored once somebody has asked for a series, for the days that are over, and corrected from then on: what an
outdated user added before is subtracted, and what the user adds now is added. `series_users` says who is outdated. All
days use the caps in force now, so that they can be compared.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, date, datetime
from typing import Any

from django.db import transaction

from config.database.commit_order import are_restored_rows_reached, can_tell_new_rows
from config.database.timeouts import long_statements
from config.documents import Document
from experiments.aggregates.dialects import planned
from experiments.aggregates.history_statements import ChangesQuery, NegativeAmountsQuery
from experiments.aggregates.marks import plain_mark
from experiments.aggregates.refresh import refresh_locked
from experiments.aggregates.series_users import has_series, invalidate_series, note_outdated, until_of
from experiments.aggregates.statements import BY_INDEX, IN_ONE_SORTED_PASS, is_quicker_in_one_pass
from experiments.aggregates.update import Change, store_change
from experiments.aggregates.variant_sums import KEY, NAMES, DailySums, VariantTotals
from experiments.metrics.definition import Definition
from experiments.metrics.documents import definitions_of
from experiments.models import AggregateState, DailyChange, Experiment, SeriesUser
from experiments.models.locks import lock_aggregates


def is_stored(definition: Definition) -> bool:
    """Return whether the daily changes of the metric are stored; all others follow from sums by day of exposure."""
    return definition.span is None


def stored_metrics(experiment: Experiment) -> set[int]:
    """Return the indexes of the metrics whose daily changes are stored."""
    return {index for index, definition in enumerate(definitions_of(experiment)) if is_stored(definition)}


@long_statements()
def update_series(experiment: Experiment, at: datetime) -> None:
    """Make the daily changes of a started experiment agree with its totals, in a transaction of its own.

    Readers first call `experiments.exposures.up_to_date.bring_up_to_date`. The first call, and the first after all
    totals were computed again, takes one pass over all events of the metrics. The first of a day adds the day before.
    """
    stored = AggregateState.objects.defer("kept", "reading").filter(experiment=experiment).first()
    until = _until(experiment, at)
    if stored is not None and _is_current(stored, until):
        return
    with transaction.atomic():
        [state] = lock_aggregates([experiment.pk])
        if not state.mark:
            state = refresh_locked(state, at)
        if not _is_current(state, until) and _has_events(state):
            with planned(jit="off"):
                _update(state, Experiment.objects.get(pk=state.pk), until)
            state.save(update_fields=["series"])


def changes_to_check(state: AggregateState, experiment: Experiment) -> tuple[DailySums, DailySums]:
    """Return the stored daily changes, brought up to date, and those computed again from all events.

    Without stored ones, both are empty. The caller has locked and refreshed the aggregates. Days that nobody can read
    are left out: those from the stop on, which events after the stop may have changed.
    """
    if not has_series(state):
        return {}, {}
    metrics, until = stored_metrics(experiment), until_of(state)
    if not _is_current(state, until):
        with planned(jit="off"):
            _update(state, experiment, until)
        state.save(update_fields=["series"])
    last = until if experiment.stopped_at is None else min(until, _day(experiment.stopped_at))
    stored = {key: totals for key, totals in read_changes(experiment) if key[0] in metrics and key[3] < last}
    return stored, _computed_afresh(state, experiment, metrics, last)


def refresh_series(experiment: Experiment, at: datetime) -> None:
    """Update the series of an experiment whose series somebody has asked for."""
    if AggregateState.objects.filter(experiment=experiment, series__isnull=False).exists():
        update_series(experiment, at)


def forget_in_series(state: AggregateState, experiment: Experiment, user_id: str) -> None:
    """Subtract what a user adds to the daily changes. Call this before the totals and events of the user go."""
    if not has_series(state):
        return
    note_outdated(state, [user_id])
    change, before = Change(), _changes_before(state, experiment, stored_metrics(experiment))
    change.add(-1, before.changes(before.exposures_of_outdated(user_id), _caps(_series(state))))
    if not _can_tell_events(state):  # asked last, because the answer may change meanwhile
        invalidate_series(state)
        return
    store_change(DailyChange, experiment.pk, change)
    SeriesUser.objects.filter(experiment=experiment, user_id=user_id).delete()


def _until(experiment: Experiment, at: datetime) -> date:
    """Return the first day that is not over, or that of the stop: what the results say now stands for it."""
    return _day(min(filter(None, (at, experiment.stopped_at))))


def _day(moment: datetime) -> date:
    return moment.astimezone(UTC).date()


def _is_current(state: AggregateState, until: date) -> bool:
    """Return whether the daily changes are exact on the days before one."""
    if not state.mark or not has_series(state) or until_of(state) < until:
        return False
    return _series(state)["caps"] == state.caps and not SeriesUser.objects.filter(experiment=state.pk).exists()


def _has_events(state: AggregateState) -> bool:
    """Return whether the events are still there. They may be purged once the results are frozen and stored."""
    return Experiment.objects.measured_by_events().filter(pk=state.pk).exists()


def _caps(document: Mapping[str, Any]) -> dict[int, float]:
    return {int(index): cap for index, cap in document["caps"].items()}


def _update(state: AggregateState, experiment: Experiment, until: date) -> None:
    change, metrics = Change(), stored_metrics(experiment)
    until = max(until, until_of(state)) if has_series(state) else until
    falling = _find_falling(state, experiment)
    corrected = _correctable(state, experiment, metrics, falling)
    if corrected:
        _correct(state, experiment, corrected, change)
        _extend(state, experiment, corrected, until, change)
        if are_restored_rows_reached(_series(state)["mark"]) or are_restored_rows_reached(plain_mark(state.mark)):
            change, corrected = Change(), set()
    if afresh := metrics - corrected:
        DailyChange.objects.filter(experiment=experiment, metric__in=afresh).delete()
        change.add(1, _computed_afresh(state, experiment, afresh, until))
    store_change(DailyChange, experiment.pk, change)
    SeriesUser.objects.filter(experiment=experiment).delete()
    state.series = {
        "mark": plain_mark(state.mark),
        "ahead": 0,  # servers of the release before, which read it, then compute all again
        "caps": state.caps,
        "until": until.isoformat(),
        "falling": sorted(falling),
    }


def _computed_afresh(state: AggregateState, experiment: Experiment, metrics: Collection[int], until: date) -> DailySums:
    """Return the daily changes of these metrics, from the events that the totals count.

    Where those cannot be distinguished from later ones, it counts the later ones, too. Then nothing corrects the
    changes: they are computed again the next time.
    """
    mark = plain_mark(state.mark)
    counted = _computed_by(mark, state, experiment, metrics, until)
    return _computed_by("", state, experiment, metrics, until) if are_restored_rows_reached(mark) else counted


def _computed_by(
    mark: str, state: AggregateState, experiment: Experiment, metrics: Collection[int], until: date
) -> DailySums:
    query = ChangesQuery(experiment, metrics, until, mark)
    with planned(**IN_ONE_SORTED_PASS):
        return query.changes(query.exposures_of_totals(), _caps({"caps": state.caps}))


def _can_correct(state: AggregateState) -> bool:
    """Return whether there are daily changes of this version, whose events can be distinguished from later ones."""
    return "until" in _series(state) and _can_tell_events(state)


def _can_tell_events(state: AggregateState) -> bool:
    return can_tell_new_rows(_series(state)["mark"])


def _series(state: AggregateState) -> Document:
    return state.series or {}


def _count_outdated(state: AggregateState) -> int:
    return SeriesUser.objects.filter(experiment=state.pk).count()


def _correctable(
    state: AggregateState, experiment: Experiment, metrics: Collection[int], falling: Collection[int]
) -> set[int]:
    """Return the metrics whose changes are quicker to correct than to compute again.

    Where a cap has moved, the users are noted whose totals are above the lower cap. These are all whose daily changes
    are other ones now, unless values fall: then the total of a user may be less than on an earlier day.
    """
    if not _can_correct(state) or is_quicker_in_one_pass(experiment, _count_outdated(state)):
        return set()
    before, now = _caps(_series(state)), _caps({"caps": state.caps})
    return {index for index in metrics if index not in falling or before.get(index) == now.get(index)}


def _find_falling(state: AggregateState, experiment: Experiment) -> set[int]:
    """Return the metrics with a percentile cap that have had a negative amount."""
    can_correct = _can_correct(state)
    known, mark = (set(_series(state)["falling"]), _series(state)["mark"]) if can_correct else (set(), None)
    return known | {
        index
        for index, definition in enumerate(definitions_of(experiment))
        if index not in known
        and definition.cap_percentile is not None
        and not definition.is_non_negative
        and is_stored(definition)
        and NegativeAmountsQuery(experiment, definition).exists_since(mark)
    }


def _changes_before(state: AggregateState, experiment: Experiment, metrics: Collection[int]) -> ChangesQuery:
    """Return the query for the changes that are stored."""
    return ChangesQuery(experiment, metrics, until_of(state), _series(state)["mark"])


def _correct(state: AggregateState, experiment: Experiment, metrics: Collection[int], change: Change) -> None:
    """Subtract what the outdated users added, and add what they add now."""
    with planned(**BY_INDEX):
        before = _changes_before(state, experiment, metrics)
        change.add(-1, before.changes(before.exposures_of_outdated(), _caps(_series(state))))
        now = ChangesQuery(experiment, metrics, until_of(state), plain_mark(state.mark))
        change.add(1, now.changes(now.present_exposures_of_outdated(), _caps({"caps": state.caps})))


def _extend(
    state: AggregateState, experiment: Experiment, metrics: Collection[int], until: date, change: Change
) -> None:
    """Add the changes on the days that are over since the last time."""
    since = until_of(state)
    if since < until:
        query = ChangesQuery(experiment, metrics, until, plain_mark(state.mark))
        with planned(**IN_ONE_SORTED_PASS):
            change.add(1, query.changes(query.exposures_of_totals(), _caps({"caps": state.caps}), since))


def read_changes(experiment: Experiment) -> Iterator[tuple[tuple[int, str, int, date], VariantTotals]]:
    """Yield the stored daily changes with their metric index, variant, phase and day."""
    rows = DailyChange.objects.filter(experiment=experiment)
    for index, variant, phase, day, *values in rows.values_list(*KEY, *NAMES):
        yield (index, variant, phase, day), VariantTotals(*values)
