"""Series: the sums as of the end of each day, by the timestamps of events and exposures.

For metrics without a window, the changes of the sums on each day are stored (see `daily_changes`). For metrics with a
window, only mature users count, and their values no longer change; so their series follow from the sums by the day of
the exposure. All days use the caps in force now, so that they can be compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

from django.db.models import Count
from django.db.models.functions import Coalesce, Greatest, TruncDate

from experiments.aggregates.daily_changes import is_stored, read_changes, stored_metrics
from experiments.aggregates.dialects import Parameters, dialect, planned
from experiments.aggregates.history_statements import ChangesQuery
from experiments.aggregates.metric_columns import since_exposure
from experiments.aggregates.statements import IN_ONE_SORTED_PASS, TotalsQuery, exposed_users
from experiments.aggregates.sum_statements import Counted, as_day, counted, sum_up
from experiments.aggregates.variant_sums import (
    EXPOSURES,
    Caps,
    Phases,
    SumsAsOf,
    VariantTotals,
    read_caps,
    read_days,
    step_of,
)
from experiments.metrics.documents import definitions_of
from experiments.models import AggregateState, Experiment, UserTotal

_DAY = timedelta(days=1)


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
    with planned(**IN_ONE_SORTED_PASS):
        changes = _add_up(_computed_changes(stopped, stopped.stopped_at, caps))
    return {key: totals for key, totals in changes.items() if key[3] < until}


def _computed_changes(stopped: Experiment, until: datetime, caps: Caps) -> Iterator[tuple[Key, VariantTotals]]:
    query = ChangesQuery(stopped, stored_metrics(stopped), until.astimezone(UTC).date())
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
    yield from ((key, totals) for key, totals in read_changes(experiment) if is_stored(definitions[key[0]]))
    has_several = False
    for (index, variant, phase, day), totals in read_days(experiment):
        if index == EXPOSURES:
            has_several = has_several or totals.several > 0
            yield (index, variant, phase, day), replace(totals, several=0)
            yield from (((span, variant, phase, day + span), totals) for span in in_whole_days)
        elif step_of(index) is None and (span := definitions[index].span) in in_whole_days and span is not None:
            yield (index, variant, phase, day + span), _of_mature(totals)
    for span in spans - in_whole_days:
        parameters = Parameters()
        rows = f"{UserTotal._meta.db_table} WHERE experiment_id = {parameters.put(experiment.pk)}"
        metrics = counted(experiment, read_caps(experiment))
        yield from _mature_by_day(metrics, span, rows, parameters)
    if has_several:
        yield from _several_by_day(experiment)


def _several_by_day(experiment: Experiment) -> Iterator[tuple[Key, VariantTotals]]:
    """Yield the number of users by the day on which they were first exposed and had seen another variant."""
    since = Greatest("exposed_at", Coalesce("in_several_since", "exposed_at"))
    users = exposed_users(experiment).filter(is_in_several_variants=True).order_by()
    rows = users.annotate(day=TruncDate(since, tzinfo=UTC)).values_list("variant", "phase", "day")
    for variant, phase, day, several in rows.annotate(users=Count("user_id")):
        yield (EXPOSURES, variant, phase, day), VariantTotals(several=several)


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
