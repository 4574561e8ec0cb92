"""Series: the sums as of the end of each day, by the timestamps of events and exposures.

For metrics without a window, the daily changes of the sums are stored once somebody has asked for a series, and
corrected from then on: what a changed user added before is subtracted, and what the user adds now is added. For metrics
with a window, only mature users count, and their values no longer change; so their series follow from the sums by the
day of the exposure. All days use the caps in force now, so that they can be compared.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Count
from django.db.models.functions import Coalesce, Greatest, TruncDate

from config.database.commit_order import can_tell_new_rows, find_foreign_arrival
from config.database.timeouts import long_statements
from events.models import Event
from experiments.aggregates.dialects import Parameters, dialect, planned
from experiments.aggregates.history_statements import ChangesQuery
from experiments.aggregates.marks import plain_mark
from experiments.aggregates.metric_columns import since_exposure
from experiments.aggregates.refresh import refresh_locked
from experiments.aggregates.series_users import invalidate_series, note_outdated
from experiments.aggregates.statements import BY_INDEX, IN_ONE_PASS, TotalsQuery, exposed_users, is_quicker_in_one_pass
from experiments.aggregates.sum_statements import Counted, as_day, counted, sum_up
from experiments.aggregates.update import Change, store_change
from experiments.aggregates.variant_sums import (
    EXPOSURES,
    KEY,
    NAMES,
    Caps,
    DailySums,
    Phases,
    SumsAsOf,
    VariantTotals,
    read_caps,
    read_days,
    step_of,
)
from experiments.metrics.definition import Definition
from experiments.metrics.documents import definitions_of
from experiments.models import AggregateState, DailyChange, Experiment, SeriesUser, UserTotal
from experiments.models.locks import lock_aggregates

_DAY = timedelta(days=1)


def is_stored(definition: Definition) -> bool:
    """Return whether the daily changes of the metric are stored; all others follow from sums by day of exposure."""
    return definition.span is None


@long_statements()
def update_series(experiment: Experiment, at: datetime) -> None:
    """Make the daily changes of a started experiment agree with its totals, in a transaction of its own.

    Readers first call `experiments.exposures.up_to_date.bring_up_to_date`. The first call, and the first after all
    totals were computed again, takes one pass over all events of the metrics.
    """
    stored = AggregateState.objects.defer("kept", "reading").filter(experiment=experiment).first()
    if stored is not None and _is_current(stored):
        return
    with transaction.atomic():
        [state] = lock_aggregates([experiment.pk])
        if not state.mark:
            state = refresh_locked(state, at)
        if not _is_current(state) and _has_events(state):
            with planned(jit="off"):
                _update(state, Experiment.objects.get(pk=state.pk))
            state.save(update_fields=["series"])


def changes_to_check(state: AggregateState, experiment: Experiment) -> tuple[DailySums, DailySums]:
    """Return the stored daily changes, brought up to date, and those computed again from all events.

    Without stored ones, both are empty. The caller has locked and refreshed the aggregates.
    """
    if not state.series:
        return {}, {}
    if not _is_current(state):
        with planned(jit="off"):
            _update(state, experiment)
        state.save(update_fields=["series"])
    metrics = _stored_metrics(experiment)
    stored = {key: totals for key, totals in _read_stored(experiment) if key[0] in metrics}
    return stored, _computed_afresh(state, experiment, metrics)


def refresh_series(experiment: Experiment, at: datetime) -> None:
    """Update the series of an experiment whose series somebody has asked for."""
    if AggregateState.objects.filter(experiment=experiment, series__isnull=False).exists():
        update_series(experiment, at)


def forget_in_series(state: AggregateState, experiment: Experiment, user_id: str) -> None:
    """Subtract what a user adds to the daily changes. Call this before the totals and events of the user go."""
    if not state.series:
        return
    note_outdated(state, [user_id])
    if not can_tell_new_rows(state.series["mark"], state.series["ahead"]):
        invalidate_series(state)
        return
    change, query = Change(), ChangesQuery(experiment, _stored_metrics(experiment), state.series["mark"])
    change.add(-1, query.changes(query.exposures_of_outdated(user_id), _caps(state.series)))
    store_change(DailyChange, experiment.pk, change)
    SeriesUser.objects.filter(experiment=experiment, user_id=user_id).delete()


def _is_current(state: AggregateState) -> bool:
    if not state.mark or not state.series:
        return False
    return state.series["caps"] == state.caps and not SeriesUser.objects.filter(experiment=state.pk).exists()


def _has_events(state: AggregateState) -> bool:
    """Return whether the events are still there. They may be purged once the results are frozen and stored."""
    return Experiment.objects.measured_by_events().filter(pk=state.pk).exists()


def _stored_metrics(experiment: Experiment) -> set[int]:
    return {index for index, definition in enumerate(definitions_of(experiment)) if is_stored(definition)}


def _caps(document: Mapping[str, Any]) -> dict[int, float]:
    return {int(index): cap for index, cap in document["caps"].items()}


def _update(state: AggregateState, experiment: Experiment) -> None:
    change, metrics = Change(), _stored_metrics(experiment)
    corrected = _correctable(state, experiment, metrics)
    if corrected:
        _correct(state, experiment, corrected, change)
    if afresh := metrics - corrected:
        DailyChange.objects.filter(experiment=experiment, metric__in=afresh).delete()
        change.add(1, _computed_afresh(state, experiment, afresh))
    store_change(DailyChange, experiment.pk, change)
    SeriesUser.objects.filter(experiment=experiment).delete()
    ahead = find_foreign_arrival(Event._meta.db_table)
    state.series = {"mark": plain_mark(state.mark), "ahead": ahead, "caps": state.caps}


def _computed_afresh(state: AggregateState, experiment: Experiment, metrics: Collection[int]) -> DailySums:
    """Return the daily changes of these metrics, from the events that the totals count."""
    query = ChangesQuery(experiment, metrics, plain_mark(state.mark))
    with planned(**IN_ONE_PASS):
        return query.changes(query.exposures_of_totals(), _caps({"caps": state.caps}))


def _correctable(state: AggregateState, experiment: Experiment, metrics: Collection[int]) -> set[int]:
    """Return the metrics whose changes are quicker to correct than to compute again: those whose cap is the same."""
    if not state.series or not can_tell_new_rows(state.series["mark"], state.series["ahead"]):
        return set()
    if is_quicker_in_one_pass(experiment, SeriesUser.objects.filter(experiment=experiment).count()):
        return set()
    before, now = _caps(state.series), _caps({"caps": state.caps})
    return {index for index in metrics if before.get(index) == now.get(index)}


def _correct(state: AggregateState, experiment: Experiment, metrics: Collection[int], change: Change) -> None:
    """Subtract what the outdated users added, and add what they add now."""
    assert state.series is not None  # noqa: S101 (there are changes to correct)
    caps = _caps({"caps": state.caps})
    with planned(**BY_INDEX):
        before = ChangesQuery(experiment, metrics, state.series["mark"])
        change.add(-1, before.changes(before.exposures_of_outdated(), caps))
        now = ChangesQuery(experiment, metrics, plain_mark(state.mark))
        change.add(1, now.changes(now.present_exposures_of_outdated(), caps))


# reading


def read_series(experiment: Experiment, at: datetime, phases: Phases = None) -> Iterator[tuple[date, SumsAsOf]]:
    """Yield each finished day with the sums as of its end, from the first exposure on.

    The sums of metrics with a window leave out `users` and `events`.

    The day of `at`, or of the stop, is not finished: the last point of a series is what the results say now. Without
    stored daily changes there are no days; `update_series` makes them.
    """
    series = AggregateState.objects.filter(experiment=experiment).values_list("series", flat=True).first()
    changes = _add_up(_all_changes(experiment)) if series else {}
    return finished_days(changes, min(filter(None, (at, experiment.stopped_at))), phases)


Key = tuple[int | timedelta, str, int, date]
"""The index of a metric, or the span of users who are mature after it, then variant, phase and day."""

Changes = Mapping[Key, VariantTotals]
"""By how much the sums change on each day."""


def finished_days(changes: Changes, until: datetime, phases: Phases = None) -> Iterator[tuple[date, SumsAsOf]]:
    """Yield each day that was over at a moment, with the sums over the users of these phases as of its end."""
    by_day: dict[date, dict[tuple[int | timedelta, str, int], VariantTotals]] = {}
    for (label, variant, phase, day), totals in changes.items():
        if phases is None or phase in phases:
            by_day.setdefault(day, {})[label, variant, phase] = totals
    last = until.astimezone(UTC).date() - _DAY
    running: dict[tuple[int | timedelta, str, int], VariantTotals] = {}
    day = min(by_day, default=last + _DAY)
    while day <= last:
        for key, totals in by_day.get(day, {}).items():
            running[key] = running[key] + totals if key in running else totals
        yield day, _as_sums(running)
        day += _DAY


def _as_sums(running: Mapping[tuple[int | timedelta, str, int], VariantTotals]) -> SumsAsOf:
    by_phase: dict[int, dict[int, dict[str, VariantTotals]]] = {}
    mature: dict[timedelta, dict[int, dict[str, int]]] = {}
    for (label, variant, phase), totals in running.items():
        if isinstance(label, timedelta):
            mature.setdefault(label, {}).setdefault(phase, {})[variant] = totals.users
        else:
            by_phase.setdefault(phase, {}).setdefault(label, {})[variant] = totals
    return SumsAsOf(by_phase, mature)


def _add_up(changes: Iterable[tuple[Key, VariantTotals]]) -> Changes:
    added: dict[Key, VariantTotals] = {}
    for key, totals in changes:
        added[key] = added[key] + totals if key in added else totals
    return added


def compute_changes(stopped: Experiment, caps: Caps) -> Changes:
    """Return by how much all sums change on each day that was over at the stop, from events, with these caps.

    It stores nothing, and takes one pass over the events for each window, and another one for all other metrics.
    """
    assert stopped.stopped_at is not None  # noqa: S101 (callers read the sums as of a moment)
    until = stopped.stopped_at.astimezone(UTC).date()
    with planned(**IN_ONE_PASS):
        changes = _add_up(_computed_changes(stopped, stopped.stopped_at, caps))
    return {key: totals for key, totals in changes.items() if key[3] < until}


def _computed_changes(stopped: Experiment, until: datetime, caps: Caps) -> Iterator[tuple[Key, VariantTotals]]:
    query = ChangesQuery(stopped, _stored_metrics(stopped), None)
    yield from query.changes(query.exposures_until(until), caps).items()
    yield from _exposed_by_day(stopped)
    yield from _several_by_day(stopped)
    for span in {definition.span for definition in definitions_of(stopped) if definition.span is not None}:
        totals = TotalsQuery(stopped)
        rows = f"({totals.totals(None)}) AS computed"
        yield from _mature_by_day(counted(stopped, caps), span, rows, totals.parameters)


def _exposed_by_day(stopped: Experiment) -> Iterator[tuple[Key, VariantTotals]]:
    users = exposed_users(stopped).order_by().annotate(day=TruncDate("exposed_at", tzinfo=UTC))
    rows = users.values_list("variant", "phase", "day").annotate(users=Count("user_id"))
    for variant, phase, day, number in rows:
        yield (EXPOSURES, variant, phase, day), VariantTotals(users=number)


def _all_changes(experiment: Experiment) -> Iterator[tuple[Key, VariantTotals]]:
    definitions = definitions_of(experiment)
    spans = {definition.span for definition in definitions if definition.span is not None}
    in_whole_days = {span for span in spans if not span % _DAY}
    yield from ((key, totals) for key, totals in _read_stored(experiment) if is_stored(definitions[key[0]]))
    for (index, variant, phase, day), totals in read_days(experiment):
        if index == EXPOSURES:
            yield (index, variant, phase, day), replace(totals, several=0)
            yield from (((span, variant, phase, day + span), totals) for span in in_whole_days)
        elif step_of(index) is None and (span := definitions[index].span) in in_whole_days and span is not None:
            yield (index, variant, phase, day + span), _of_mature(totals)
    for span in spans - in_whole_days:
        parameters = Parameters()
        rows = f"{UserTotal._meta.db_table} WHERE experiment_id = {parameters.put(experiment.pk)}"
        metrics = counted(experiment, read_caps(experiment))
        yield from _mature_by_day(metrics, span, rows, parameters)
    yield from _several_by_day(experiment)


def _several_by_day(experiment: Experiment) -> Iterator[tuple[Key, VariantTotals]]:
    """Yield the number of users by the day on which they were first exposed and had seen another variant."""
    since = Greatest("exposed_at", Coalesce("in_several_since", "exposed_at"))
    users = exposed_users(experiment).filter(is_in_several_variants=True).order_by()
    rows = users.annotate(day=TruncDate(since, tzinfo=UTC)).values_list("variant", "phase", "day")
    for variant, phase, day, several in rows.annotate(users=Count("user_id")):
        yield (EXPOSURES, variant, phase, day), VariantTotals(several=several)


def _read_stored(experiment: Experiment) -> Iterator[tuple[tuple[int, str, int, date], VariantTotals]]:
    rows = DailyChange.objects.filter(experiment=experiment)
    for index, variant, phase, day, *values in rows.values_list(*KEY, *NAMES):
        yield (index, variant, phase, day), VariantTotals(*values)


def _mature_by_day(
    metrics: Iterable[Counted], span: timedelta, rows: str, parameters: Parameters
) -> Iterator[tuple[Key, VariantTotals]]:
    """Yield the sums over users by the day on which they are mature, for metrics with this span.

    `rows` is SQL with the columns of totals (see `sum_up`).
    """
    of_span = [metric for metric in metrics if metric.definition.span == span]
    matures = dialect().day_of.format(since_exposure(span, parameters.put))
    summed = sum_up(rows, ["variant", "phase", matures], of_span, parameters)
    for (index, variant, phase, day), totals in summed.items():
        if index == EXPOSURES:
            yield (span, variant, phase, as_day(day)), totals
        elif step_of(index) is None:
            yield (index, variant, phase, as_day(day)), _of_mature(totals)


def _of_mature(totals: VariantTotals) -> VariantTotals:
    """Leave out what may have changed since users became mature."""
    return replace(totals, users=0, events=0)
