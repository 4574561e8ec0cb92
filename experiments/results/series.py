"""Series: the sums as of the end of each day, by the timestamps of events and exposures.

For metrics without a window, the value of each user at the end of each day is stored from the first time on that
somebody asks for the series (see `experiments.models.DayValue`), and by how much the sums change on each day. A user
whose values change is computed again there, too. For metrics with a window, only mature users count, and their values
no longer change, so their series follow from the sums by the day of the exposure. All days use the caps in force now,
so that they can be compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from functools import reduce
from operator import or_
from typing import Any

from django.db.models import (
    Case,
    Count,
    DateField,
    F,
    IntegerField,
    OuterRef,
    QuerySet,
    RowRange,
    Subquery,
    Value,
    When,
    Window,
)
from django.db.models.functions import Coalesce, Greatest, TruncDate
from django.db.models.lookups import GreaterThan

from config.database.selects import Column, Part, Select, rows_of, select_of, unpivoted
from experiments.metrics.definition import Definition, definitions_of
from experiments.models import EXPOSURE, DayValue, Experiment, Exposure
from experiments.results.expressions import (
    AddSeconds,
    FirstDay,
    FloorSecond,
    IsOneOf,
    UTCDay,
    in_all,
    of_day,
    until_each_day,
)
from experiments.results.metrics import FIGURES, effective_day, is_of_any, is_without_number
from experiments.results.sums import (
    Caps,
    ExactSums,
    Grouped,
    Phases,
    Summing,
    SumsAsOf,
    read_caps,
    read_changes,
    read_days,
    step_of,
    sum_values,
    summing_of,
)
from experiments.results.values import (
    VARIANT_NUMBER,
    Source,
    column_of,
    computed_values,
    exposed_users,
    is_ranked,
    source_of,
    sources_of,
    state_of,
    stored_values,
)

_DAY = timedelta(days=1)
_USER, _SINCE = F("user_id"), "since"


# values of days


def has_day_values(definition: Definition) -> bool:
    """Return whether the values of days are stored for a metric; all others follow from sums by day of exposure."""
    return definition.span is None


def select_day_values(source: Source) -> Select:
    """Return a SELECT of the values of days, as `DayValue` has them, of users with events.

    An event before the exposure counts from the day of the exposure on.
    """
    names = frozenset[str]().union(*(definition.events for definition in source.definitions.values()))
    exposure = ("user_id", "phase", "exposed_at")
    days = source.with_events(names).values(*exposure, variant_number=VARIANT_NUMBER, since=effective_day())
    of_days: dict[str, Any] = {}
    until_days: dict[str, Any] = {}
    figures: dict[str, Any] = {}
    for number, definition in source.definitions.items():
        seen, until = column_of(number, "seen"), column_of(number, "until")
        of_days[seen] = _count_events(definition)
        until_days[seen] = Column(seen, IntegerField())
        until_days[until] = _next_day_with(Column(seen, IntegerField()))
        figures |= {seen: Column(seen, IntegerField()), until: Column(until, DateField())}
        for name, figure in source.figures(number).items():
            parts = {f"{column_of(number, name)}_{place}": part for place, part in enumerate(figure.aggregates)}
            columns = {column: Column(column, of_day(part).output_field) for column, part in parts.items()}
            of_days |= {column: of_day(part) for column, part in parts.items()}
            until_days |= {
                column: until_each_day(part, columns[column], _USER, _SINCE) for column, part in parts.items()
            }
            figures[column_of(number, name)] = figure.combine(
                *(in_all(part, columns[column]) for column, part in parts.items())
            )
    until_each = _by_day(days.annotate(**of_days)).annotate(**until_days)
    wide = _by_day(until_each).annotate(**figures)
    rows_of_metrics = [
        Part(
            number,
            {**sources_of(number, definition, source.figures(number)), "until": column_of(number, "until")},
            required=column_of(number, "seen"),
            is_flagged=is_ranked(definition),
        )
        for number, definition in source.definitions.items()
    ]
    keys = ("user_id", "variant_number", "phase", "since")
    return unpivoted(DayValue, select_of(wide), keys, rows_of_metrics, (*FIGURES, "until"))


def _by_day(rows: QuerySet[Exposure, Any]) -> QuerySet[Exposure, Any]:
    """Return a queryset over rows that have the keys of values of days."""
    days = rows_of(Exposure, select_of(rows)).annotate(since=Column(_SINCE, DateField()))
    return days.values("user_id", "phase", "since", variant_number=VARIANT_NUMBER)


def _count_events(definition: Definition) -> Count:
    """Return the number of events of a metric on a day, with those that have no number where it needs one."""
    quantities = [definition.quantity, *definition.steps, *filter(None, [definition.denominator])]
    without_number = map(is_without_number, definition.numbers)
    return Count("user_id", filter=reduce(or_, without_number, is_of_any(quantities)))


def _next_day_with(seen: Column) -> Window:
    """Return the next day on which a user has events of a metric, given their number on each day."""
    day = FirstDay(Case(When(GreaterThan(seen, 0), then=F(_SINCE))))
    return Window(day, partition_by=_USER, order_by=_SINCE, frame=RowRange(start=1, end=None))


def stored_day_values(experiment: Experiment, users: Sequence[str] | None = None) -> QuerySet[DayValue]:
    """Return the stored values of days of some users, or of all."""
    rows = DayValue.objects.filter(state=state_of(experiment)).order_by()
    return rows if users is None else rows.filter(IsOneOf(F("user_id"), users))


def sum_day_values(rows: QuerySet[DayValue], summing: Summing) -> Grouped:
    """Return by how much the sums over these values change, by metric, variant, phase and day."""
    changes = sum_values(rows, summing, ("phase", "since"))
    for key, ended in sum_values(rows.filter(until__isnull=False), summing, ("phase", "until")).items():
        changes[key] = changes[key] + -ended if key in changes else -ended
    return changes


# reading


Key = tuple[int | timedelta, str, int, date]
"""The number of a metric, or the span of users who are mature after it, then variant, phase and day."""

Changes = Mapping[Key, ExactSums]
"""By how much the sums change on each day."""


def read_series(experiment: Experiment, now: datetime, phases: Phases = None) -> Iterator[tuple[date, SumsAsOf]]:
    """Yield each finished day with the sums as of its end, from the first exposure on.

    The sums of metrics with a window leave out `users` and `events`. The day of `now`, or of the end of counting, is
    not finished: the last point of a series is what the results say now. `results.refresh.bring_series_up_to_date`
    comes before.
    """
    changes = _add_up(_all_changes(experiment))
    return finished_days(changes, experiment.counted_by(now), phases)


def finished_days(changes: Changes, until: datetime, phases: Phases = None) -> Iterator[tuple[date, SumsAsOf]]:
    """Yield each day that was over at a moment, with the sums over the users of these phases as of its end."""
    by_day: dict[date, dict[tuple[int | timedelta, str, int], ExactSums]] = {}
    for (number, variant, phase, day), sums in changes.items():
        if phases is None or phase in phases:
            by_day.setdefault(day, {})[number, variant, phase] = sums
    last = until.astimezone(UTC).date() - _DAY
    running: dict[tuple[int | timedelta, str, int], ExactSums] = {}
    day = min(by_day, default=last + _DAY)
    while day <= last:
        for key, sums in by_day.get(day, {}).items():
            running[key] = running[key] + sums if key in running else sums
        yield day, _as_of(running)
        day += _DAY


def _as_of(running: Mapping[tuple[int | timedelta, str, int], ExactSums]) -> SumsAsOf:
    by_phase: dict[int, dict[int, dict[str, ExactSums]]] = {}
    mature: dict[timedelta, dict[int, dict[str, int]]] = {}
    for (number, variant, phase), sums in running.items():
        if isinstance(number, timedelta):
            mature.setdefault(number, {}).setdefault(phase, {})[variant] = sums.users
        else:
            by_phase.setdefault(phase, {}).setdefault(number, {})[variant] = sums
    return SumsAsOf(by_phase, mature)


def _add_up(changes: Iterable[tuple[Key, ExactSums]]) -> Changes:
    added: dict[Key, ExactSums] = {}
    for key, sums in changes:
        added[key] = added[key] + sums if key in added else sums
    return added


def _all_changes(experiment: Experiment) -> Iterator[tuple[Key, ExactSums]]:
    definitions = definitions_of(experiment)
    spans = {definition.span for definition in definitions if definition.span is not None}
    in_whole_days = {span for span in spans if not span % _DAY}
    yield from read_changes(experiment)
    has_several = False
    for (number, variant, phase, day), sums in read_days(experiment):
        if number == EXPOSURE:
            has_several = has_several or sums.in_several_variants > 0
            yield (number, variant, phase, day), replace(sums, in_several_variants=0)
            yield from (((span, variant, phase, day + span), sums) for span in in_whole_days)
        elif step_of(number) is None and (span := definitions[number].span) in in_whole_days and span is not None:
            yield (number, variant, phase, day + span), _of_mature(sums)
    for span in spans - in_whole_days:
        yield from _mature_by_day(experiment, span)
    if has_several:
        yield from _several_by_day(experiment)


def _several_by_day(experiment: Experiment) -> Iterator[tuple[Key, ExactSums]]:
    """Yield the number of users by the day on which they were first exposed and had seen another variant."""
    since = Greatest("exposed_at", Coalesce("in_several_since", "exposed_at"))
    users = exposed_users(experiment).filter(is_in_several_variants=True)
    rows = users.annotate(day=TruncDate(since, tzinfo=UTC)).values_list("variant", "phase", "day")
    for variant, phase, day, several in rows.annotate(users=Count("user_id")):
        yield (EXPOSURE, variant, phase, day), ExactSums(in_several_variants=several)


def _mature_by_day(experiment: Experiment, span: timedelta) -> Iterator[tuple[Key, ExactSums]]:
    """Yield the stored sums over users by the day on which they are mature, for metrics with this span."""
    summing = _of_span(summing_of(experiment, read_caps(experiment)), span)
    rows = stored_values(experiment).filter(metric__in=[EXPOSURE, *summing.definitions])
    exposures = stored_values(experiment).filter(user_id=OuterRef("user_id"), metric=EXPOSURE)
    by_day = rows.annotate(mature_on=mature_day(Subquery(exposures.values("exposed_at")), span))
    yield from _as_mature(sum_values(by_day, summing, ("phase", "mature_on"), has_exposures=True), span)


def mature_day(exposed_at: Any, span: timedelta) -> UTCDay:
    """Return the day on which a user is mature for metrics with a span."""
    return UTCDay(AddSeconds(FloorSecond(exposed_at), Value(span // timedelta(seconds=1))))


def _of_span(summing: Summing, span: timedelta) -> Summing:
    return summing.of_metrics([number for number, metric in summing.definitions.items() if metric.span == span])


def _as_mature(sums: Grouped, span: timedelta) -> Iterator[tuple[Key, ExactSums]]:
    for (number, variant, phase, day), changed in sums.items():
        if number == EXPOSURE:
            yield (span, variant, phase, day), changed
        elif step_of(number) is None:
            yield (number, variant, phase, day), _of_mature(changed)


def _of_mature(sums: ExactSums) -> ExactSums:
    """Leave out what may have changed since users became mature."""
    return replace(sums, users=0, events=0, without_number=0)


# computing without storing


def compute_changes(stopped: Experiment, caps: Caps) -> Changes:
    """Return by how much all sums change on each day that was over at the stop, from events, with these caps.

    It stores nothing. The values of days take two passes over the events, and each window takes another one.
    """
    assert stopped.counting_ends_at is not None  # noqa: S101 (callers read the sums as of a moment)
    until = stopped.counting_ends_at.astimezone(UTC).date()
    changes = _add_up(_computed_changes(stopped, caps))
    return {key: sums for key, sums in changes.items() if key[3] < until}


def _computed_changes(stopped: Experiment, caps: Caps) -> Iterator[tuple[Key, ExactSums]]:
    source, summing = source_of(stopped), summing_of(stopped, caps)
    of_days = [number for number, definition in source.definitions.items() if has_day_values(definition)]
    if of_days:
        rows = rows_of(DayValue, select_day_values(source.of_metrics(of_days)))
        yield from sum_day_values(rows, summing.of_metrics(of_days)).items()
    exposed = source.exposures.annotate(day=TruncDate("exposed_at", tzinfo=UTC))
    for variant, phase, day, number in exposed.values_list("variant", "phase", "day").annotate(users=Count("user_id")):
        yield (EXPOSURE, variant, phase, day), ExactSums(users=number)
    yield from _several_by_day(stopped)
    for span in {definition.span for definition in source.definitions.values() if definition.span is not None}:
        day, of_span = mature_day(F("exposed_at"), span), _of_span(summing, span)
        mature = source.exposures.annotate(mature_on=day).values_list("variant", "phase", "mature_on")
        for variant, phase, mature_on, number in mature.annotate(users=Count("user_id")):
            yield (span, variant, phase, mature_on), ExactSums(users=number)
        values = computed_values(replace(source.of_metrics([*of_span.definitions]), keys={"day": day}))
        yield from _as_mature(sum_values(values, of_span), span)
