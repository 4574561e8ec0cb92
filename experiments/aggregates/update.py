"""Changing the totals of users together with the sums over them, so that the two always agree.

The old totals of a user are subtracted from the sums and the new ones added. Sums are exact, so no
rounding error is left behind. Callers lock the aggregates of the experiment.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import partial
from itertools import product
from typing import Literal
from uuid import UUID

from django.db import connection
from django.db.models import Sum

from config.database.insertion import insert
from experiments.aggregates.additions import AdditionsQuery
from experiments.aggregates.dialects import Parameters, dialect, execute, fetch, is_chosen
from experiments.aggregates.metric_columns import Layout
from experiments.aggregates.quantiles import forgotten
from experiments.aggregates.series_users import (
    EXPOSURE,
    UNLESS_NOTED,
    begin_of,
    has_series,
    invalidate_series,
    note_outdated,
    until_of,
)
from experiments.aggregates.statements import delete_totals, exposed_users, is_quicker_in_one_pass, write_totals
from experiments.aggregates.sum_statements import (
    Counted,
    as_day,
    counted,
    keys_of_days,
    sum_by_day,
    sum_changes,
    sum_changes_by_day,
)
from experiments.aggregates.variant_sums import KEY, KINDS, NAMES, Caps, DailySums
from experiments.metrics.definition import Definition
from experiments.metrics.documents import definitions_of
from experiments.models import AggregateState, DailyChange, Experiment, SeriesUser, UserTotal, VariantSums


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


def _find_percentile(experiment: Experiment, metric_index: int, percentile: float, number: int) -> float | None:
    """Return the cap of a metric at a percentile, given how many users have a value other than 0."""

    def from_above(which: int) -> float:  # counting from the greatest value, so that fewer values are sorted
        parameters = Parameters()
        value, rows = _measured(experiment, metric_index, parameters)
        statement = f"SELECT {value} FROM {rows}"  # noqa: S608 (no data)
        return float(fetch(f"{statement} ORDER BY 1 DESC LIMIT 1 OFFSET {which}", parameters)[0][0])

    return percentile_cap(percentile, number, from_above)


def percentile_cap(percentile: float, number: int, from_above: Callable[[int], float]) -> float | None:
    """Return the percentile (50 to 100) of `number` values other than 0, by nearest rank.

    `from_above` returns a value by its rank, 0 for the greatest. The cap is None without values, and where it would
    be 0 or less, because users without events count as 0.
    """
    if not number:
        return None
    cap = from_above(_rank_from_above(percentile, number))
    return cap if cap > 0 else None


def _rank_from_above(percentile: float, number: int) -> int:
    return number - math.ceil(number * Fraction(str(percentile)) / 100)


_CLOSE = 0.9
"""A percentile above this share of an earlier one is found in the same pass that counts by it."""

USERS_AT_ONCE = 10_000

_TABLE = UserTotal._meta.db_table


class AggregateUpdater:
    """Writes the totals and sums of one experiment, as of a mark of the commit order.

    The caps in force are in its state, which the caller saves.
    """

    def __init__(self, state: AggregateState, experiment: Experiment, until: str = "") -> None:
        self.state, self.experiment, self._until = state, experiment, until
        self.definitions: Mapping[int, Definition] = dict(enumerate(definitions_of(experiment)))
        self.layout = Layout([*self.definitions.values()])
        self._percentiles = {
            index: definition.cap_percentile
            for index, definition in self.definitions.items()
            if definition.cap_percentile is not None
        }
        self._change = Change()

    def compute_all(self) -> None:
        """Compute all totals from events, and all sums from totals."""
        invalidate_series(self.state)
        self._forget_quantiles()
        UserTotal.objects.filter(experiment=self.experiment).delete()
        VariantSums.objects.filter(experiment=self.experiment).delete()
        exposed = exposed_users(self.experiment)
        if is_quicker_in_one_pass(self.experiment, exposed.count()):
            write_totals(self.experiment, None, self._until)
        else:
            for user_ids in _chunks(set(exposed.values_list("user_id", flat=True))):
                write_totals(self.experiment, user_ids, self._until)
        self.caps = self.find_caps()
        self._change.add(1, self.sums_of_totals())
        self._store()

    def add_new_events(self, since: str) -> set[str]:
        """Add the events since an earlier mark to totals, and return the users who must be computed again anyway.

        The sums change with `store`.
        """
        query = AdditionsQuery(self.experiment, since, self._until)
        additions = [*query.add(self.caps)]
        for addition in additions:
            self._change.add(1, addition.sums)
        return {addition.uncertain for addition in additions if addition.uncertain is not None}

    def note_outdated(self, users: Collection[str]) -> None:
        """Note users whose daily changes are about to become outdated, before their totals change."""
        for user_ids in _chunks(users):
            note_outdated(self.state, user_ids)

    def compute(self, users: Collection[str]) -> None:
        """Compute the totals of these users from events; users who are not exposed have none afterwards.

        The sums change with `store`.
        """
        for user_ids in _chunks(users):
            self._change.add(-1, self._sums_of(user_ids))
            write_totals(self.experiment, user_ids, self._until)
            self._change.add(1, self._sums_of(user_ids))

    def remove(self, user_id: str) -> None:
        """Delete the totals of a user. The sums change with `store`."""
        self._change.add(-1, self._sums_of([user_id]))
        delete_totals(self.experiment, [user_id])

    def store(self) -> None:
        """Make caps, sums and quantiles follow from the totals that have changed."""
        if self._change.sums:
            self._forget_quantiles()
            self._move_caps()
            self._store()

    def _forget_quantiles(self) -> None:
        """Have the quantiles computed again. Those of frozen results stay, because their events may be gone."""
        if self.experiment.frozen_at is None:
            self.state.quantiles = forgotten()

    def find_caps(self) -> Caps:
        """Return the caps that the stored totals give: fixed ones, and percentiles of the values other than 0."""
        fixed = {index: definition.cap_value for index, definition in self.definitions.items()}
        found = {
            index: _find_percentile(self.experiment, index, percentile, count_measured(self.experiment, index))
            for index, percentile in self._percentiles.items()
        }
        return {index: float(cap) for index, cap in (fixed | found).items() if cap is not None}

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
        """Compute the percentiles again of metrics that have changed, and count users above an old or new one by it."""
        changed = self._percentiles.keys() & {metric_index for metric_index, *_ in self._change.sums}
        measured, caps = self._count_measured(changed), {**self.caps}
        for index in changed:
            new = self._move_cap(index, caps.pop(index, None), measured[index])
            if new is not None:
                caps[index] = new
        self.caps = caps

    def _move_cap(self, metric_index: int, old: float | None, number: int) -> float | None:
        """Return the cap at the percentile of this number of values, and count users above an old or new one by it."""
        percentile = self._percentiles[metric_index]
        if old and number:
            close = self._move_closely(metric_index, old, _rank_from_above(percentile, number))
            if close is not None:
                return close
        new = _find_percentile(self.experiment, metric_index, percentile, number)
        if new != old:
            self._change.add(1, self._difference(metric_index, old, new))
            if self._has_stored_days(metric_index):
                self._note_above(metric_index, old, new)
        return new

    def _move_closely(self, metric_index: int, old: float, rank: int) -> float | None:
        """Return the cap with a rank among the greatest values, or None if it is much less than the old one.

        One pass over the totals finds it and counts by it.
        """
        parameters = Parameters()
        bound = parameters.put(old * _CLOSE)
        figure = partial(self.layout.figure, metric_index)
        given = f"""
            WITH above AS MATERIALIZED (SELECT * FROM {self._above(metric_index, bound, parameters)}),
            percentile AS (SELECT {figure("y")} AS cap FROM above ORDER BY 1 DESC LIMIT 1 OFFSET {rank})
        """  # noqa: S608 (no data)
        if self._has_stored_days(metric_index):
            moved = self._is_above(metric_index, "cap", parameters.put(old))
            note = self._note(f"above, percentile WHERE cap <> {parameters.put(old)} AND {moved}", parameters)
            if connection.vendor == "postgresql":
                given = f"{given}, noted AS ({note})"
            else:
                execute(f"{given} {note}", parameters)
        metric = self._counted(metric_index, old), self._counted(metric_index, "cap")
        summed = sum_changes("above, percentile", [*keys_of_days(), "cap"], [metric], parameters, given)
        new: float | None = next((cap for *_, cap in summed), None)
        if new is None or new <= old * _CLOSE:
            return None
        for (index, variant, phase, day, _), sums in summed.items():
            self._change.add(1, {(index, variant, phase, as_day(day)): sums})
        return new

    def _count_measured(self, metric_indexes: Collection[int]) -> Mapping[int, int]:
        """Return the number of users of each of these metrics whose value is not 0, from the sums and their change."""
        if not metric_indexes:
            return {}
        stored = VariantSums.objects.filter(experiment=self.experiment, metric__in=metric_indexes)
        numbers = Counter(dict(stored.values_list("metric").annotate(users=Sum("measured"))))
        for (metric_index, *_), change in self._change.sums.items():
            numbers[metric_index] += change.measured
        return numbers

    def _sums_of(self, users: list[str]) -> DailySums:
        parameters = Parameters()
        return self._sum_up(
            is_chosen("user_id", users, parameters.put), parameters, counted(self.experiment, self.caps)
        )

    def _difference(self, metric_index: int, old: float | None, new: float | None) -> DailySums:
        """Return how the sums change with another cap of a metric; only users above the lower cap matter."""
        parameters = Parameters()
        lowest = parameters.put(min(cap for cap in (old, new) if cap is not None))
        metric = self._counted(metric_index, old), self._counted(metric_index, new)
        return sum_changes_by_day(self._above(metric_index, lowest, parameters), [metric], parameters)

    def _has_stored_days(self, metric_index: int) -> bool:
        return has_series(self.state) and self.definitions[metric_index].span is None

    def _note_above(self, metric_index: int, *caps: float | None) -> None:
        """Note the users whose daily changes another cap of a metric makes outdated."""
        parameters = Parameters()
        bounds = [parameters.put(cap) for cap in caps if cap is not None]
        execute(self._note(self._rows(self._is_above(metric_index, *bounds), parameters), parameters), parameters)

    def _note(self, rows: str, parameters: Parameters) -> str:
        """Return SQL that notes the users of some totals, given as a table and a condition."""
        return f"""
            INSERT INTO {SeriesUser._meta.db_table} (experiment_id, {EXPOSURE}) SELECT experiment_id, {EXPOSURE}
            FROM {rows} AND exposed_at < {parameters.put(begin_of(until_of(self.state)))} {UNLESS_NOTED}
        """  # noqa: S608 (no data)

    def _counted(self, metric_index: int, cap: float | str | None) -> Counted:
        return Counted(metric_index, self.definitions[metric_index], cap, partial(self.layout.figure, metric_index))

    def _above(self, metric_index: int, bound: str, parameters: Parameters) -> str:
        """Return SQL for the totals of users with a value above a bound, before or since their exposure."""
        return self._rows(self._is_above(metric_index, bound), parameters)

    def _is_above(self, metric_index: int, *bounds: str) -> str:
        both = product((self.layout.figure(metric_index, name) for name in ("y", "x")), bounds)
        return f"({' OR '.join(f'{figure} > {bound}' for figure, bound in both)})"

    def _sum_up(self, condition: str, parameters: Parameters, metrics: Sequence[Counted]) -> DailySums:
        return sum_by_day(self._rows(condition, parameters), metrics, parameters)

    def _rows(self, condition: str, parameters: Parameters) -> str:
        return f"{_TABLE} WHERE experiment_id = {parameters.put(self.experiment.pk)} AND {condition}"

    def _store(self) -> None:
        store_change(VariantSums, self.experiment.pk, self._change)
        self._change = Change()


class Change:
    """Amounts to add to sums."""

    def __init__(self) -> None:
        self.sums: DailySums = {}

    def add(self, sign: Literal[1, -1], sums: DailySums) -> None:
        for key, totals in sums.items():
            if any(totals.values()):
                change = totals if sign == 1 else -totals
                self.sums[key] = self.sums[key] + change if key in self.sums else change


def store_change(model: type[VariantSums | DailyChange], experiment_id: UUID, change: Change) -> None:
    """Add the change to the stored sums, and delete those of which nothing is left."""
    rows = [
        [experiment_id, metric_index, variant, phase, day.isoformat(), *map(str, sums.values())]
        for (metric_index, variant, phase, day), sums in change.sums.items()
        if any(sums.values())
    ]
    if not rows:
        return
    insert(model, ["experiment_id", *KEY, *NAMES], rows, f"ON CONFLICT {_KEY} DO UPDATE SET {_additions(model)}")
    _delete_zeros(model, experiment_id)


def _delete_zeros(model: type[VariantSums | DailyChange], experiment_id: UUID) -> None:
    parameters = Parameters()
    # Exact sums are texts on SQLite, and an addition makes numbers of them.
    conditions = [f"experiment_id = {parameters.put(experiment_id)}", *(f"{_quoted(name)} + 0 = 0" for name in NAMES)]
    execute(f"DELETE FROM {model._meta.db_table} WHERE {' AND '.join(conditions)}", parameters)  # noqa: S608 (no data)


_KEY = f"(experiment_id, {', '.join(KEY)})"


def _additions(model: type[VariantSums | DailyChange]) -> str:
    """Return SQL that adds the sums of a row that was not inserted to those that are stored."""
    columns = {name: _quoted(name) for name in NAMES}
    stored = {name: f"{model._meta.db_table}.{column}" for name, column in columns.items()}
    return ", ".join(
        f"{column} = {_added(name).format(stored[name], f'excluded.{column}')}" for name, column in columns.items()
    )


def _added(name: str) -> str:
    """Return a template in SQL for the sum with this name of two rows."""
    return dialect().exact_added if KINDS[name] is Decimal else "{} + {}"


def _quoted(name: str) -> str:
    return connection.ops.quote_name(name)


def _chunks(users: Collection[str]) -> Iterator[list[str]]:
    """Yield the users in the order of the keys of the totals, some at a time."""
    ordered = sorted(users)
    return (ordered[at : at + USERS_AT_ONCE] for at in range(0, len(ordered), USERS_AT_ONCE))
