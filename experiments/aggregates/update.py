"""Changing the totals of users together with the sums over them, so that the two always agree.

The old totals of a user are subtracted from the sums and the new ones added. Sums are exact, so no
rounding error is left behind. Callers lock the aggregates of the experiment.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import Literal
from uuid import UUID

from django.db.models import Sum

from config.database.insertion import insert
from experiments.aggregates.dialects import Parameters, fetch, is_chosen
from experiments.aggregates.metric_columns import Layout
from experiments.aggregates.quantiles import forgotten
from experiments.aggregates.series_users import invalidate_series, note_outdated
from experiments.aggregates.statements import delete_totals, exposed_users, is_quicker_in_one_pass, write_totals
from experiments.aggregates.variant_sums import (
    EXPOSURES,
    KEY,
    NAMES,
    Caps,
    Counted,
    DailySums,
    VariantTotals,
    counted,
    sum_by_day,
)
from experiments.metrics.definition import Definition
from experiments.metrics.documents import definitions_of
from experiments.models import AggregateState, DailyChange, Experiment, UserTotal, VariantSums


def find_cap(
    experiment: Experiment, metric_index: int, definition: Definition, measured: Callable[[int], int]
) -> float | None:
    """Return the cap of a metric, fixed or a percentile of the values other than 0. None where there is no cap.

    `measured` returns how many users have a value other than 0, given the index of the metric.
    """
    if definition.cap_percentile is None:
        return None if definition.cap_value is None else float(definition.cap_value)

    def from_above(which: int) -> float:  # counting from the greatest value, so that fewer values are sorted
        parameters = Parameters()
        value, rows = _measured(experiment, metric_index, parameters)
        statement = f"SELECT {value} FROM {rows}"  # noqa: S608 (no data)
        return float(fetch(f"{statement} ORDER BY 1 DESC LIMIT 1 OFFSET {which}", parameters)[0][0])

    return percentile_cap(definition.cap_percentile, measured(metric_index), from_above)


def count_measured(experiment: Experiment, metric_index: int) -> int:
    """Return the number of users whose value is not 0, from their totals."""
    parameters = Parameters()
    _, rows = _measured(experiment, metric_index, parameters)
    [[number]] = fetch(f"SELECT COUNT(*) FROM {rows}", parameters)  # noqa: S608 (no data)
    return int(number)


def _measured(experiment: Experiment, metric_index: int, parameters: Parameters) -> tuple[str, str]:
    """Return SQL for the value of a user, and for the rows of the users whose value is not 0."""
    experiment_id, value = parameters.put(experiment.pk), Layout(definitions_of(experiment)).figure(metric_index, "y")
    return value, f"{UserTotal._meta.db_table} WHERE experiment_id = {experiment_id} AND {value} <> 0"


def percentile_cap(percentile: float, number: int, from_above: Callable[[int], float]) -> float | None:
    """Return the percentile (50 to 100) of `number` values other than 0, by nearest rank.

    `from_above` returns a value by its rank, 0 for the greatest. The cap is None without values, and where it would
    be 0 or less, because users without events count as 0.
    """
    if not number:
        return None
    rank = math.ceil(number * Fraction(str(percentile)) / 100)
    cap = from_above(number - rank)
    return cap if cap > 0 else None


USERS_AT_ONCE = 10_000

_OLD, _NEW = 0, 1
_TABLE = UserTotal._meta.db_table


class AggregateUpdater:
    """Writes the totals and sums of one experiment. The caps in force are in its state, which the caller saves."""

    def __init__(self, state: AggregateState, experiment: Experiment) -> None:
        self.state, self.experiment = state, experiment
        self.definitions: Mapping[int, Definition] = dict(enumerate(definitions_of(experiment)))
        self.layout = Layout([*self.definitions.values()])

    def compute_all(self) -> None:
        """Compute all totals from events, and all sums from totals."""
        invalidate_series(self.state)
        self._forget_quantiles()
        UserTotal.objects.filter(experiment=self.experiment).delete()
        VariantSums.objects.filter(experiment=self.experiment).delete()
        exposed = exposed_users(self.experiment)
        if is_quicker_in_one_pass(self.experiment, exposed.count()):
            write_totals(self.experiment, None)
        else:
            for user_ids in _chunks(set(exposed.values_list("user_id", flat=True))):
                write_totals(self.experiment, user_ids)
        self.caps = self.find_caps()
        change = Change()
        change.add(1, self.sums_of_totals())
        self._store(change)

    def compute(self, users: Collection[str]) -> None:
        """Compute the totals of these users from events; users who are not exposed have none afterwards."""
        self._forget_quantiles()
        change = Change()
        for user_ids in _chunks(users):
            change.add(-1, self._sums_of(user_ids))
            note_outdated(self.state, user_ids)
            write_totals(self.experiment, user_ids)
            change.add(1, self._sums_of(user_ids))
        self._store(change)
        self._move_caps()

    def remove(self, user_id: str) -> None:
        """Delete the totals of a user."""
        self._forget_quantiles()
        change = Change()
        change.add(-1, self._sums_of([user_id]))
        delete_totals(self.experiment, [user_id])
        self._store(change)
        self._move_caps()

    def _forget_quantiles(self) -> None:
        """Have the quantiles computed again. Those of frozen results stay, because their events may be gone."""
        if self.experiment.frozen_at is None:
            self.state.quantiles = forgotten()

    def find_caps(self) -> Caps:
        """Return the caps that the stored totals give."""
        return self._find_caps(lambda metric_index: count_measured(self.experiment, metric_index))

    def sums_of_totals(self) -> DailySums:
        """Return the sums over all totals, with the caps in force."""
        return self._sum_up("TRUE", Parameters(), counted(self.experiment, self.caps))

    @property
    def caps(self) -> Caps:
        return {int(metric_index): cap for metric_index, cap in self.state.caps.items()}

    @caps.setter
    def caps(self, caps: Caps) -> None:
        self.state.caps = {str(metric_index): cap for metric_index, cap in caps.items()}

    def _move_caps(self) -> None:
        """Compute the caps again, and count the users above an old or a new cap by the new one."""
        measured = self._measured()
        old, new, change = self.caps, self._find_caps(lambda metric_index: measured.get(metric_index, 0)), Change()
        for metric_index in old.keys() | new.keys():
            if old.get(metric_index) != new.get(metric_index):
                change.add(1, self._difference(metric_index, old.get(metric_index), new.get(metric_index)))
        self._store(change)
        self.caps = new

    def _find_caps(self, measured: Callable[[int], int]) -> Caps:
        caps = {
            index: find_cap(self.experiment, index, definition, measured)
            for index, definition in self.definitions.items()
        }
        return {index: cap for index, cap in caps.items() if cap is not None}

    def _measured(self) -> Mapping[int, int]:
        """Return the number of users of each metric whose value is not 0, from the sums."""
        sums = VariantSums.objects.filter(experiment=self.experiment)
        return dict(sums.values_list("metric").annotate(users=Sum("measured")))

    def _sums_of(self, users: list[str]) -> DailySums:
        parameters = Parameters()
        return self._sum_up(
            is_chosen("user_id", users, parameters.put), parameters, counted(self.experiment, self.caps)
        )

    def _difference(self, metric_index: int, old: float | None, new: float | None) -> DailySums:
        """Return how the sums change with another cap of a metric; only users above the lower cap matter."""
        parameters, definition = Parameters(), self.definitions[metric_index]
        figure = partial(self.layout.figure, metric_index)
        lowest = min(cap for cap in (old, new) if cap is not None)
        above = (f"{figure(name)} > {parameters.put(lowest)}" for name in ("y", "x"))
        both = [Counted(label, definition, cap, figure) for label, cap in ((_OLD, old), (_NEW, new))]
        change = Change()
        for (label, variant, phase, day), sums in self._sum_up(f"({' OR '.join(above)})", parameters, both).items():
            if label != EXPOSURES:
                change.add(1 if label == _NEW else -1, {(metric_index, variant, phase, day): sums})
        return change.sums

    def _sum_up(self, condition: str, parameters: Parameters, metrics: Sequence[Counted]) -> DailySums:
        rows = f"{_TABLE} WHERE experiment_id = {parameters.put(self.experiment.pk)} AND {condition}"
        return sum_by_day(rows, metrics, parameters)

    def _store(self, change: Change) -> None:
        store_change(VariantSums, self.experiment.pk, change)


class Change:
    """Amounts to add to sums."""

    def __init__(self) -> None:
        self.sums: DailySums = {}

    def add(self, sign: Literal[1, -1], sums: DailySums) -> None:
        for key, totals in sums.items():
            self.sums[key] = self.sums.get(key, VariantTotals()) + (totals if sign == 1 else -totals)


def store_change(model: type[VariantSums | DailyChange], experiment_id: UUID, change: Change) -> None:
    """Add the change to the stored sums, rewriting those of each day that it touches."""
    if not change.sums:
        return
    days = {day for *_, day in change.sums}
    stored = model._default_manager.filter(experiment=experiment_id, day__in=days)
    for metric_index, variant, phase, day, *sums in stored.values_list(*KEY, *NAMES):
        change.add(1, {(metric_index, variant, phase, day): VariantTotals(*sums)})
    stored.delete()
    rows = [
        [experiment_id, metric_index, variant, phase, day.isoformat(), *map(str, sums.values())]
        for (metric_index, variant, phase, day), sums in change.sums.items()
        if any(sums.values())
    ]
    insert(model, ["experiment_id", *KEY, *NAMES], rows, "")


def _chunks(users: Collection[str]) -> Iterator[list[str]]:
    """Yield the users in the order of the keys of the totals, some at a time."""
    ordered = sorted(users)
    return (ordered[at : at + USERS_AT_ONCE] for at in range(0, len(ordered), USERS_AT_ONCE))
