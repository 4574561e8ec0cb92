"""The values of one metric by days since the exposure, which show whether an effect wears off or grows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial

from config.timestamps import floor_to_second
from events.models import Event
from experiments.aggregates.dialects import Parameters, dialect, fetch, figures, planned
from experiments.aggregates.metric_columns import Layout, columns_of
from experiments.aggregates.statements import IN_ONE_PASS, TotalsQuery
from experiments.aggregates.sum_statements import Counted, sum_up
from experiments.aggregates.variant_sums import EXPOSURES, Caps, Phases, Totals, VariantTotals
from experiments.metrics.definition import Definition
from experiments.metrics.documents import definitions_of
from experiments.models import Experiment, Exposure

_EXPOSURE = "user_id, variant, phase, exposed_at, is_in_several_variants"

ByPhase = Mapping[int, Totals]
"""Sums by phase, metric index (EXPOSURES for the users) and variant."""


def can_be_split(definition: Definition) -> bool:
    """Return whether the metric has a value for each day: a quantile is none of users."""
    return definition.type != "quantile"


def read_days_since_exposure(
    experiment: Experiment, metric_index: int, at: datetime, caps: Caps, phases: Phases = None
) -> Sequence[ByPhase]:
    """Return, for each day since the exposure, the sums of the values of that day alone.

    Day 0 is the first 24 hours. On each day, the users count who were exposed so long ago that it is over, at `at` or
    at the stop; their number is in the sums of EXPOSURES. Delay and window of the metric do not matter, and a metric of
    retention asks whether users were active on the day. It takes one pass over the events of the metric, and returns
    nothing where events may have been deleted since the results were frozen.
    """
    if not Experiment.objects.measured_by_events().filter(pk=experiment.pk).exists():
        return []
    query = _DaysQuery(experiment, metric_index, at, caps.get(metric_index), phases)
    days = _count_users(query.users())
    for (variant, phase, day), totals in query.sums().items():
        days[day][phase].setdefault(metric_index, {})[variant] = totals
    return days


def _count_users(users: Mapping[tuple[str, int, int], int]) -> list[dict[int, dict[int, dict[str, VariantTotals]]]]:
    """Return the days, each with the number of its users by phase and variant.

    `users` has the numbers of users by variant, phase and the number of days that are over for them.
    """
    days: list[dict[int, dict[int, dict[str, VariantTotals]]]] = [
        {} for _ in range(max((d for *_, d in users), default=0))
    ]
    for (variant, phase, over), number in users.items():
        for day in days[:over]:
            of_phase = day.setdefault(phase, {}).setdefault(EXPOSURES, {})
            of_phase[variant] = of_phase.get(variant, VariantTotals()) + VariantTotals(users=number)
    return days


class _DaysQuery(TotalsQuery):
    """The SQL for the values of each user by days since the exposure."""

    def __init__(
        self, experiment: Experiment, metric_index: int, at: datetime, cap: float | None, phases: Phases
    ) -> None:
        super().__init__(experiment)
        end = at if experiment.stopped_at is None else min(at, experiment.stopped_at)
        self._end, self._phases = floor_to_second(end), phases
        self._cap = cap
        definition = definitions_of(experiment)[metric_index]
        kind = "conversion" if definition.type == "retention" else definition.type
        self._definition = replace(definition, type=kind, delay=timedelta(0), window=None, cap_percentile=None)
        self.definitions = [self._definition]

    def users(self) -> Mapping[tuple[str, int, int], int]:
        """Return the number of users by variant, phase and the number of days that are over for them."""
        parameters = self.parameters = Parameters()
        self._put = parameters.put
        rows = f"""
            SELECT variant, phase, {self._days_over()} AS days, COUNT(*)
            FROM {Exposure._meta.db_table} AS exposed WHERE {self._counts()} GROUP BY 1, 2, 3
        """  # noqa: S608 (no data)
        return {(variant, phase, days): number for variant, phase, days, number in fetch(rows, parameters) if days > 0}

    def sums(self) -> Mapping[tuple[str, int, int], VariantTotals]:
        """Return the sums over users by variant, phase and the number of the day since their exposure."""
        self.parameters = Parameters()
        self._put = self.parameters.put
        counted = Counted(
            0, self._definition, self._cap, partial(Layout(self.definitions).figure, 0), has_history=False
        )
        rows = f"({self._values()}) AS valued"
        with planned(**IN_ONE_PASS):
            summed = sum_up(rows, ["variant", "phase", "day"], [counted], self.parameters)
        return {(variant, phase, day): totals for (label, variant, phase, day), totals in summed.items() if label == 0}

    def _counts(self) -> str:
        condition = self._is_exposed(None)
        if self._phases is None:
            return condition
        phases = ", ".join(map(self._put, sorted(self._phases)))
        return f"{condition} AND phase IN ({phases or 'NULL'})"

    def _days_over(self) -> str:
        return dialect().days_between.format(dialect().base, self._put(self._end))

    def _values(self) -> str:
        """Return SQL for the figures of each user and day on which an event counts."""
        columns = columns_of(self.definitions, self._put, has_history=False)
        named = {column.aggregate: f"aggregate_{at}" for at, column in enumerate(columns) if column.aggregate}
        aggregates = "".join(f", {aggregate} AS {name}" for aggregate, name in named.items())
        computed = figures(column.figure.format(named.get(column.aggregate)) for column in columns)
        exposed = ", ".join(f"exposed.{name}" for name in _EXPOSURE.split(", "))
        day = dialect().days_between.format(dialect().base, dialect().counted_at)
        return f"""
            SELECT {_EXPOSURE}, day, {computed} AS figures{dialect().fence_column} FROM (
                SELECT {exposed}, {day} AS day{aggregates}
                FROM {Exposure._meta.db_table} AS exposed JOIN {Event._meta.db_table} AS happened
                    ON happened.user_id = exposed.user_id AND {" AND ".join(self._matters())}
                WHERE {self._counts()} AND {dialect().counted_at} >= {dialect().base} AND {day} < {self._days_over()}
                GROUP BY experiment_id, exposed.user_id, {day}
            ) AS aggregated {dialect().fence}
        """  # noqa: S608 (no data)
