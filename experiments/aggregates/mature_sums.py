"""Reading the sums over the users who count for each metric at a moment.

A metric with a window counts mature users only: those whose window is over, counted from the second of their exposure,
by the moment of reading or by the stop, whichever is earlier. All other metrics count all exposed users.

`read_mature` returns a `Reading`:

- `sums`: a `SumsAsOf` with the sums over the users who count. Its `by_phase` has `Totals`; a metric with a window has
  the sums over its mature users there. Its `mature` has their numbers, by span, phase and variant. With the maturity
  "all", everybody counts, and `mature` is empty.
- `everybody`: the `Totals` of all exposed users by phase, for the numbers of users and of events.
- `users_of(metric_index, phase)`: the number of users who count for a metric, by variant; the n of its statistics.
- `half_mature_at(span, phases, variant)`: about when half of the users who are not mature yet will be.

Users become mature by the clock alone: the sums of whole days of exposure are stored, and the users of the one day in
which the boundary falls are summed up from their totals, in one statement for each span. Call
`experiments.exposures.up_to_date.bring_up_to_date` first, and read within `read_consistently`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from functools import reduce
from operator import or_
from typing import Literal

from django.db.models import Q

from config.timestamps import floor_to_second
from experiments.aggregates.dialects import Parameters
from experiments.aggregates.marks import counted_mature_users
from experiments.aggregates.sum_statements import counted, sum_up
from experiments.aggregates.variant_sums import (
    EXPOSURES,
    Caps,
    Mature,
    SumsAsOf,
    Totals,
    VariantTotals,
    read_phases,
    step_index,
    sum_by_phase,
)
from experiments.metrics.definition import Definition
from experiments.metrics.documents import definitions_of
from experiments.models import AggregateState, Experiment, UserTotal, VariantSums

Maturity = Literal["mature", "all"]
"""Whether metrics with a window count their mature users only, or all exposed users."""

_DAY, _SECOND = timedelta(days=1), timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Reading:
    """The sums of an experiment at a moment (see the module). `maturity` is the one that was applied.

    Windows count as open or over at `end`: the moment of reading, or the stop.
    """

    end: datetime
    maturity: Maturity
    sums: SumsAsOf
    everybody: Mapping[int, Totals]
    definitions: Sequence[Definition]
    mature: Mature
    exposed: Mapping[tuple[int, str, date], int]

    def users_of(self, metric_index: int, phase: int) -> Mapping[str, int]:
        """Return the number of users of a phase who count for a metric, by variant."""
        span = self.definitions[metric_index].span
        if span is None or self.maturity == "all":
            return {key: totals.users for key, totals in self._exposed_in(phase).items()}
        mature = self.mature[span].get(phase, {})
        return {key: mature.get(key, 0) for key in self._exposed_in(phase)}

    def mature_users(self, metric_index: int, phase: int) -> Mapping[str, int]:
        """Return the number of users of a phase who are mature for a metric, whatever the maturity."""
        return replace(self, maturity="mature").users_of(metric_index, phase)

    def _exposed_in(self, phase: int) -> Mapping[str, VariantTotals]:
        return self.everybody.get(phase, {}).get(EXPOSURES, {})

    def half_mature_at(self, span: timedelta, phases: Collection[int], variant: str) -> datetime:
        """Return about when half of the users of these phases who are not mature yet for a metric will be.

        Users are taken to have come evenly between the midnights of UTC, the boundary of maturity and the moment of
        reading: reading the exposures of the day takes as long as all other statements of a reading together.
        """
        by_day: Counter[date] = Counter()
        for (phase, key, day), users in self.exposed.items():
            if phase in phases and key == variant:
                by_day[day] += users
        waiting = by_day.total() - sum(self.mature[span].get(phase, {}).get(variant, 0) for phase in phases)
        newer = waiting // 2
        for day in sorted(by_day, reverse=True):
            users = min(by_day[day], waiting)
            if newer < users:
                break
            newer, waiting = newer - users, waiting - users
        midnight = datetime.combine(day, time.min, UTC)
        begin, end = max(midnight, self.end - span), min(midnight + _DAY, self.end)
        return floor_to_second(end - (end - begin) * (newer + 0.5) / users) + span


def read_mature(experiment: Experiment, at: datetime, caps: Caps, maturity: Maturity = "mature") -> Reading:
    """Return the sums of a started experiment over the users who count at a moment.

    Results that froze in a version without maturity count everybody, as they did when they froze.
    """
    definitions, everybody = definitions_of(experiment), read_phases(experiment)
    if maturity == "mature" and froze_with_everybody(experiment):
        maturity = "all"
    boundaries = boundaries_of(experiment, at, definitions)
    exposed = _read_exposed(experiment) if boundaries else {}
    sums = _read_sums(experiment, boundaries, exposed, caps)
    return Reading(
        end=_end(experiment, at),
        maturity=maturity,
        sums=SumsAsOf(everybody, {}) if maturity == "all" else _with_all_others(sums, everybody, definitions),
        everybody=everybody,
        definitions=definitions,
        mature=sums.mature,
        exposed=exposed,
    )


def boundaries_of(
    experiment: Experiment, at: datetime, definitions: Iterable[Definition]
) -> Mapping[timedelta, datetime]:
    """Return, for each span of the metrics, the first whole second of an exposure that is too late to be mature."""
    end = _end(experiment, at)
    spans = sorted({definition.span for definition in definitions if definition.span is not None})
    return {span: floor_to_second((end - span).astimezone(UTC)) + _SECOND for span in spans}


def _end(experiment: Experiment, at: datetime) -> datetime:
    return at if experiment.stopped_at is None else min(at, experiment.stopped_at)


def froze_with_everybody(experiment: Experiment) -> bool:
    """Return whether the results froze in a version whose metrics with a window counted all users."""
    if experiment.frozen_at is None:
        return False
    mark = AggregateState.objects.filter(experiment=experiment).values_list("mark", flat=True).first()
    return not counted_mature_users(mark or "")


def _read_exposed(experiment: Experiment) -> dict[tuple[int, str, date], int]:
    """Return the number of exposed users by phase, variant and day of exposure."""
    rows = VariantSums.objects.filter(experiment=experiment, metric=EXPOSURES)
    return {
        (phase, variant, day): users
        for phase, variant, day, users in rows.values_list("phase", "variant", "day", "users")
    }


_Sums = dict[int, dict[int, dict[str, VariantTotals]]]


def _read_sums(
    experiment: Experiment,
    boundaries: Mapping[timedelta, datetime],
    exposed: Mapping[tuple[int, str, date], int],
    caps: Caps,
) -> SumsAsOf:
    """Return the sums of the metrics with a window over their mature users, and the numbers of these."""
    by_phase = _read_stored(experiment, boundaries) if boundaries else {}
    mature: dict[timedelta, dict[int, dict[str, int]]] = {}
    for span, boundary in boundaries.items():
        counts = mature.setdefault(span, {})
        for (phase, variant, day), users in exposed.items():
            if day < boundary.date():
                _add_users(counts, phase, variant, users)
        for (index, phase, variant), totals in _sum_last_day(experiment, span, boundary, caps).items():
            if index == EXPOSURES:
                _add_users(counts, phase, variant, totals.users)
            else:
                of_variant = by_phase.setdefault(phase, {}).setdefault(index, {})
                of_variant[variant] = of_variant.get(variant, VariantTotals()) + totals
    return SumsAsOf(by_phase, mature)


def _add_users(counts: dict[int, dict[str, int]], phase: int, variant: str, users: int) -> None:
    of_phase = counts.setdefault(phase, {})
    of_phase[variant] = of_phase.get(variant, 0) + users


def _read_stored(experiment: Experiment, boundaries: Mapping[timedelta, datetime]) -> _Sums:
    """Return the stored sums of the days of exposure that are wholly before the boundaries."""
    with_window = (
        (index, definition, boundaries[definition.span].date())
        for index, definition in enumerate(definitions_of(experiment))
        if definition.span is not None
    )
    wanted = (
        Q(metric__in=indexes_of(index, definition), day__lt=boundary) for index, definition, boundary in with_window
    )
    return sum_by_phase(VariantSums.objects.filter(reduce(or_, wanted), experiment=experiment))


def indexes_of(metric_index: int, definition: Definition) -> list[int]:
    """Return the metric indexes that stand for a metric and the steps of a funnel."""
    return [metric_index, *(step_index(metric_index, step) for step in range(1, len(definition.steps) + 1))]


def _sum_last_day(
    experiment: Experiment, span: timedelta, boundary: datetime, caps: Caps
) -> Mapping[tuple[int, int, str], VariantTotals]:
    """Return the sums over the users exposed before the boundary on its day, by metric index, phase and variant."""
    begin = datetime.combine(boundary.date(), time.min, UTC)
    if boundary == begin:
        return {}
    parameters = Parameters()
    rows = (
        f"{UserTotal._meta.db_table} WHERE experiment_id = {parameters.put(experiment.pk)} "
        f"AND exposed_at >= {parameters.put(begin)} AND exposed_at < {parameters.put(boundary)}"
    )
    metrics = [metric for metric in counted(experiment, caps) if metric.definition.span == span]
    return sum_up(rows, ["phase", "variant"], metrics, parameters)


def _with_all_others(sums: SumsAsOf, everybody: Mapping[int, Totals], definitions: Sequence[Definition]) -> SumsAsOf:
    """Return the sums with those of the exposures and of the metrics without a window, over all users."""
    others = {EXPOSURES}.union(
        *(indexes_of(index, definition) for index, definition in enumerate(definitions) if definition.span is None)
    )
    by_phase = {
        phase: {index: of_metric for index, of_metric in totals.items() if index in others}
        | {**sums.by_phase.get(phase, {})}
        for phase, totals in everybody.items()
    }
    return SumsAsOf(by_phase, sums.mature)
