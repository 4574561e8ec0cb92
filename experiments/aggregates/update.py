"""Changing the totals of users together with the sums over them, so that the two always agree.

The old totals of a user are subtracted from the sums and the new ones added. Sums are exact, so no
rounding error is left behind. Callers lock the aggregates of the experiment.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import partial
from typing import Literal
from uuid import UUID

from django.db import connection
from django.db.models import Sum

from config.database.insertion import insert
from config.database.locks import keep_snapshots_from_beginning
from config.database.two_phases import commit_in_two_phases
from experiments.aggregates.additions import AdditionsQuery
from experiments.aggregates.caps import count_measured, find_percentile, rank_from_above
from experiments.aggregates.dialects import Parameters, dialect, execute, is_chosen, planned
from experiments.aggregates.marks import marks_near_caps
from experiments.aggregates.metric_columns import Layout
from experiments.aggregates.near_caps import LEAST_PERCENTILE, NearCaps, is_above
from experiments.aggregates.quantiles import forgotten
from experiments.aggregates.ranks import find_by_rank
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
from experiments.aggregates.sum_statements import Counted, counted, sum_by_day, sum_changes_by_day
from experiments.aggregates.variant_sums import KEY, KINDS, NAMES, Caps, DailySums
from experiments.metrics.definition import Definition
from experiments.metrics.documents import definitions_of
from experiments.models import AggregateState, DailyChange, Experiment, SeriesUser, UserTotal, VariantSums

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
        self._near = NearCaps(state, self.layout, are_known=marks_near_caps(state.mark))
        self._change = Change()

    def compute_all(self) -> None:
        """Compute all totals from events, and all sums from totals."""
        invalidate_series(self.state)
        self._forget_quantiles()
        UserTotal.objects.filter(experiment=self.experiment).delete()
        self._near.forget()
        VariantSums.objects.filter(experiment=self.experiment).delete()
        exposed = exposed_users(self.experiment)
        if is_quicker_in_one_pass(self.experiment, exposed.count()):
            write_totals(self.experiment, None, self._until, {})
        else:
            for user_ids in _chunks(set(exposed.values_list("user_id", flat=True))):
                write_totals(self.experiment, user_ids, self._until, {})
        self.caps = self.find_caps()
        self._change.add(1, self.sums_of_totals())
        measured = self._count_measured(self._percentiles.keys())
        for index in self._percentiles:
            self._choose_bound(index, measured[index])
        self._store()

    def add_new_events(self, since: str) -> set[str]:
        """Add the events since an earlier mark to totals, and return the users who must be computed again anyway.

        The sums change with `store`.
        """
        query = AdditionsQuery(self.experiment, since, self._until)
        additions = [*query.add(self.caps, self._near.bounds)]
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
            write_totals(self.experiment, user_ids, self._until, self._near.bounds)
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
            index: find_percentile(self.experiment, index, percentile, count_measured(self.experiment, index))
            for index, percentile in self._percentiles.items()
        }
        return {index: float(cap) for index, cap in (fixed | found).items() if cap is not None}

    def count_unmarked(self) -> Mapping[int, int]:
        """Return the number of users near each cap whose totals do not say so, which must be 0."""
        return {index: self._near.count_unmarked(index) for index in self._percentiles}

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
        rank, bound = rank_from_above(percentile, number), self._near.bounds.get(metric_index)
        if bound is not None and number and (old is None or old >= bound):
            with planned(enable_seqscan="off"):
                near = self._move_within(metric_index, old, rank, bound, "is_near_cap")
            if near is not None:
                self._near.raise_bound(metric_index, near, rank, number)
                return near
        new = self._move_among_all(metric_index, old, number, rank)
        self._choose_bound(metric_index, number)
        return new

    def _choose_bound(self, metric_index: int, number: int) -> None:
        """Mark the users near the cap of a metric, given how many have a value other than 0."""
        percentile = self._percentiles[metric_index]
        if percentile >= LEAST_PERCENTILE:
            self._near.choose(metric_index, rank_from_above(percentile, number), number)

    def _move_among_all(self, metric_index: int, old: float | None, number: int, rank: int) -> float | None:
        if old and number:
            close = self._move_within(metric_index, old, rank, old * _CLOSE)
            if close is not None:
                return close
        new = find_percentile(self.experiment, metric_index, self._percentiles[metric_index], number)
        self._count_by(metric_index, old, new)
        return new

    def _move_within(
        self, metric_index: int, old: float | None, rank: int, bound: float, condition: str = "TRUE"
    ) -> float | None:
        """Return the cap with a rank among the greatest values, or None if it is not above a bound.

        The old one must not be below the bound, and all users above it must meet the condition. Users above the old or
        new one are counted by it.
        """
        parameters = Parameters()
        above = self._above(metric_index, bound, parameters, condition)
        new = find_by_rank(self.layout.figure(metric_index, "y"), above, parameters, rank)
        if new is None or new <= bound:
            return None
        self._count_by(metric_index, old, new, condition)
        return new

    def _count_by(self, metric_index: int, old: float | None, new: float | None, condition: str = "TRUE") -> None:
        """Count the users above an old or new cap by the new one. All of them must meet the condition.

        Their daily changes become outdated.
        """
        if new == old:
            return
        parameters, lower = Parameters(), min(cap for cap in (old, new) if cap is not None)
        above = self._above(metric_index, lower, parameters, condition)
        metric = self._counted(metric_index, old), self._counted(metric_index, new)
        self._change.add(1, sum_changes_by_day(above, [metric], parameters))
        if self._has_stored_days(metric_index):
            self._note(metric_index, lower, condition)

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

    def _has_stored_days(self, metric_index: int) -> bool:
        return has_series(self.state) and self.definitions[metric_index].span is None

    def _note(self, metric_index: int, bound: float, condition: str) -> None:
        """Note the users above a bound, whose daily changes are outdated."""
        parameters = Parameters()
        above = self._above(metric_index, bound, parameters, condition)
        statement = f"""
            INSERT INTO {SeriesUser._meta.db_table} (experiment_id, {EXPOSURE}) SELECT experiment_id, {EXPOSURE}
            FROM {above} AND exposed_at < {parameters.put(begin_of(until_of(self.state)))} {UNLESS_NOTED}
        """  # noqa: S608 (no data)
        execute(statement, parameters)

    def _counted(self, metric_index: int, cap: float | None) -> Counted:
        return Counted(metric_index, self.definitions[metric_index], cap, partial(self.layout.figure, metric_index))

    def _above(self, metric_index: int, bound: float, parameters: Parameters, condition: str) -> str:
        """Return SQL for the totals of users with a value above a bound, before or since their exposure."""
        above = is_above(partial(self.layout.figure, metric_index), parameters.put(bound))
        return self._rows(f"{condition} AND {above}", parameters)

    def _sum_up(self, condition: str, parameters: Parameters, metrics: Sequence[Counted]) -> DailySums:
        return sum_by_day(self._rows(condition, parameters), metrics, parameters)

    def _rows(self, condition: str, parameters: Parameters) -> str:
        return f"{_TABLE} WHERE experiment_id = {parameters.put(self.experiment.pk)} AND {condition}"

    def _store(self) -> None:
        store_change(VariantSums, self.experiment.pk, self._change)
        self._change = Change()
        commit_in_two_phases()
        keep_snapshots_from_beginning()


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
