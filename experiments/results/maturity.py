"""Reading the sums over the users who count for each metric at a moment.

A metric with a window counts mature users only: those whose window is over, counted from the second of their exposure,
by the moment of reading or by the end of counting, whichever is earlier. All other metrics count all exposed users.

`read_mature` returns `MatureSums`:

- `sums`: a `SumsAsOf` with the sums over the users who count. Its `by_phase` has `MetricSums`; a metric with a
  window has the sums over its mature users there. Its `mature` has their numbers, by span, phase and variant. With the
  maturity "all", everybody counts, and `mature` is empty.
- `everybody`: the `MetricSums` of all exposed users by phase, for the numbers of users and of events.
- `users_of(metric, phase)`: the number of users who count for a metric, by variant; the n of its statistics.
- `half_mature_at(span, phases, variant)`: about when half of the users who are not mature yet will be.

Users become mature by the clock alone: the sums of whole days of exposure are stored, and the users of the one day in
which the boundary falls are summed up from their values, in one statement for each span. Call
`results.refresh.bring_up_to_date` first, and read within `read_consistently`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from typing import Literal

from django.db.models import Case, Value, When

from config.timestamps import floor_to_second
from experiments.metrics.definition import Definition, definitions_of
from experiments.models import EXPOSURE, Experiment, VariantSums
from experiments.results.sums import (
    Caps,
    ExactSums,
    Grouped,
    Mature,
    MetricSums,
    SumsAsOf,
    SumsByPhase,
    add_up,
    numbers_of,
    read_parts,
    sum_values,
    summing_of,
)
from experiments.results.values import stored_values

Maturity = Literal["mature", "all"]
"""Whether metrics with a window count their mature users only, or all exposed users."""

_DAY, _SECOND = timedelta(days=1), timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class MatureSums:
    """The sums of an experiment at a moment (see the module). `maturity` is the one that was applied.

    Windows count as open or over at `end`: the moment of reading, or the end of counting. Users were exposed until
    `exposed_until`: the moment of reading, or the stop.
    """

    end: datetime
    exposed_until: datetime
    maturity: Maturity
    sums: SumsAsOf
    everybody: Mapping[int, MetricSums]
    definitions: Sequence[Definition]
    mature: Mature
    exposed: Mapping[tuple[int, str, date], int]

    def users_of(self, metric: int, phase: int) -> Mapping[str, int]:
        """Return the number of users of a phase who count for a metric, by variant."""
        span = self.definitions[metric].span
        if span is None or self.maturity == "all":
            return {key: totals.users for key, totals in self._exposed_in(phase).items()}
        mature = self.mature[span].get(phase, {})
        return {key: mature.get(key, 0) for key in self._exposed_in(phase)}

    def mature_users(self, metric: int, phase: int) -> Mapping[str, int]:
        """Return the number of users of a phase who are mature for a metric, whatever the maturity."""
        return replace(self, maturity="mature").users_of(metric, phase)

    def _exposed_in(self, phase: int) -> Mapping[str, ExactSums]:
        return self.everybody.get(phase, {}).get(EXPOSURE, {})

    def half_mature_at(self, span: timedelta, phases: Collection[int], variant: str) -> datetime:
        """Return about when half of the users of these phases who are not mature yet for a metric will be.

        Users are taken to have come evenly between the midnights of UTC, the boundary of maturity and the last
        exposure: reading the exposures of the day takes as long as all other statements of a reading together.
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
        begin, end = max(midnight, self.end - span), min(midnight + _DAY, self.exposed_until)
        return floor_to_second(end - (end - begin) * (newer + 0.5) / users) + span


def read_mature(experiment: Experiment, now: datetime, caps: Caps, maturity: Maturity = "mature") -> MatureSums:
    """Return the sums of a started experiment over the users who count at a moment."""
    definitions = definitions_of(experiment)
    boundaries = boundaries_of(experiment, now, definitions)
    exposed = _read_exposed(experiment) if boundaries else {}
    others, of_whole_days = read_parts(experiment, _is_of_whole_day(definitions, boundaries), 2)
    everybody = add_up(others, of_whole_days)
    sums = _sum_mature(experiment, boundaries, exposed, of_whole_days, caps)
    return MatureSums(
        end=experiment.counted_by(now),
        exposed_until=min(now, experiment.stopped_at or now),
        maturity=maturity,
        sums=SumsAsOf(everybody, {}) if maturity == "all" else _with_all_others(sums, everybody, definitions),
        everybody=everybody,
        definitions=definitions,
        mature=sums.mature,
        exposed=exposed,
    )


def boundaries_of(
    experiment: Experiment, now: datetime, definitions: Iterable[Definition]
) -> Mapping[timedelta, datetime]:
    """Return, for each span of the metrics, the first whole second of an exposure that is too late to be mature."""
    end = experiment.counted_by(now)
    spans = sorted({definition.span for definition in definitions if definition.span is not None})
    return {span: floor_to_second((end - span).astimezone(UTC)) + _SECOND for span in spans}


def _read_exposed(experiment: Experiment) -> dict[tuple[int, str, date], int]:
    """Return the number of exposed users by phase, variant and day of exposure."""
    rows = VariantSums.objects.filter(experiment=experiment, metric=EXPOSURE)
    return {
        (phase, variant, day): users
        for phase, variant, day, users in rows.values_list("phase", "variant", "day", "users")
    }


def _sum_mature(
    experiment: Experiment,
    boundaries: Mapping[timedelta, datetime],
    exposed: Mapping[tuple[int, str, date], int],
    of_whole_days: SumsByPhase,
    caps: Caps,
) -> SumsAsOf:
    """Return the sums of the metrics with a window over their mature users, and the numbers of these."""
    by_phase = add_up(of_whole_days)
    mature: dict[timedelta, dict[int, dict[str, int]]] = {}
    for span, boundary in boundaries.items():
        counts = mature.setdefault(span, {})
        for (phase, variant, day), users in exposed.items():
            if day < boundary.date():
                _add_users(counts, phase, variant, users)
        for (number, variant, phase), sums in _sum_last_day(experiment, span, boundary, caps).items():
            if number == EXPOSURE:
                _add_users(counts, phase, variant, sums.users)
            else:
                of_variant = by_phase.setdefault(phase, {}).setdefault(number, {})
                of_variant[variant] = of_variant.get(variant, ExactSums()) + sums
    return SumsAsOf(by_phase, mature)


def _add_users(counts: dict[int, dict[str, int]], phase: int, variant: str, users: int) -> None:
    of_phase = counts.setdefault(phase, {})
    of_phase[variant] = of_phase.get(variant, 0) + users


def _is_of_whole_day(definitions: Sequence[Definition], boundaries: Mapping[timedelta, datetime]) -> Case:
    """Return 1 for the sums of a metric with a window over a day of exposure wholly before its boundary, else 0."""
    whole_days = [
        When(metric__in=numbers_of(number, definition), day__lt=boundaries[definition.span].date(), then=Value(1))
        for number, definition in enumerate(definitions)
        if definition.span is not None
    ]
    return Case(*whole_days, default=Value(0))


def _sum_last_day(experiment: Experiment, span: timedelta, boundary: datetime, caps: Caps) -> Grouped:
    """Return the sums over the users exposed before the boundary on its day, by metric, variant and phase."""
    if boundary == datetime.combine(boundary.date(), time.min, UTC):
        return {}
    every = summing_of(experiment, caps)
    summing = every.of_metrics([number for number, metric in every.definitions.items() if metric.span == span])
    of_day = stored_values(experiment).filter(day=boundary.date())
    users = of_day.filter(metric=EXPOSURE, exposed_at__lt=boundary).values("user_id")
    rows = of_day.filter(metric__in=[EXPOSURE, *summing.definitions], user_id__in=users)
    return sum_values(rows, summing, ("phase",), has_exposures=True)


def _with_all_others(
    sums: SumsAsOf, everybody: Mapping[int, MetricSums], definitions: Sequence[Definition]
) -> SumsAsOf:
    """Return the sums with those of the exposures and of the metrics without a window, over all users."""
    others = {EXPOSURE}.union(
        *(numbers_of(number, definition) for number, definition in enumerate(definitions) if definition.span is None)
    )
    by_phase = {
        phase: {number: of_metric for number, of_metric in of_phase.items() if number in others}
        | {**sums.by_phase.get(phase, {})}
        for phase, of_phase in everybody.items()
    }
    return SumsAsOf(by_phase, sums.mature)
