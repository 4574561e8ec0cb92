"""Changing the values of users together with the sums over them, so that the two always agree.

The old values of a user are subtracted from the sums and the new ones added. Sums are exact, so no rounding error is
left behind. Callers lock the results of the experiment.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence

from django.db.models import Q, QuerySet, Sum

from config.database.planning import BY_INDEX, IN_ONE_PASS, planned
from config.database.selects import insert_select
from config.database.transactions import commit_in_two_phases, keep_snapshots_from_beginning
from events.counts.storage import quarter_of
from events.models import EventCount
from experiments.models import DailySums, DayValue, Experiment, ResultState, UserValue, VariantSums
from experiments.results.caps import find_cap
from experiments.results.quantiles import no_quantiles
from experiments.results.series import select_day_values, stored_day_values, sum_day_values
from experiments.results.sums import (
    Caps,
    Change,
    Grouped,
    Summing,
    store_change,
    sum_values,
    summing_of,
)
from experiments.results.values import (
    Source,
    earliest_event,
    exposed_users,
    select_exposures,
    select_values,
    source_of,
    stored_values,
)

USERS_AT_ONCE = 10_000

_EVENTS_A_USER = 30
"""One pass reads this many events in the time in which an index finds the events of one user."""


def is_quicker_in_one_pass(experiment: Experiment, users: int) -> bool:
    """Return whether reading all events is quicker than looking up this many users, from the counts of events."""
    if not users:
        return False
    since = quarter_of(earliest_event(experiment))
    counts = EventCount.objects.filter(environment=experiment.environment_id, quarter__gte=since)
    events: int = counts.aggregate(events=Sum("count"))["events"] or 0
    return users * _EVENTS_A_USER > events


class Update:
    """A change of the values and sums of one experiment.

    The caps in force are in its state, which the caller saves.
    """

    def __init__(self, state: ResultState, experiment: Experiment) -> None:
        self.state, self.experiment = state, experiment
        experiment.result_state = state
        self._source = source_of(experiment)
        self._percentiles = {
            number: definition
            for number, definition in self._source.definitions.items()
            if definition.cap_percentile is not None
        }
        self._change, self._change_of_days = Change(), Change()

    # all users

    def compute_all(self) -> None:
        """Compute all values from events, and all sums from values."""
        self._forget_quantiles()
        for of_users in (stored_values(self.experiment), stored_day_values(self.experiment)):
            of_users.delete()
        for sums in (VariantSums, DailySums):
            sums._default_manager.filter(experiment=self.experiment).delete()
        if is_quicker_in_one_pass(self.experiment, exposed_users(self.experiment).count()):
            with planned(**IN_ONE_PASS):
                self._insert(None)
        else:
            for users in _chunks(exposed_users(self.experiment).values_list("user_id", flat=True)):
                with planned(**BY_INDEX):
                    self._insert(users)
        self.caps = self.find_caps()
        self._change.add(1, self.sums_of_values())
        self._compute_all_days(self.state.daily_metrics)
        self._store()

    def begin_series(self, metrics: Collection[int]) -> None:
        """Store the values of days for these metrics, and keep them up to date from now on."""
        self._compute_all_days(metrics)
        self.state.daily_metrics = sorted({*self.state.daily_metrics, *metrics})
        self._store()

    def _compute_all_days(self, metrics: Collection[int]) -> None:
        if metrics:
            with planned(**IN_ONE_PASS):
                self._insert_days(self._source.of_metrics(metrics))
            self._change_of_days.add(1, self.sums_of_days(metrics))

    # some users

    def compute(self, users: Collection[str]) -> None:
        """Compute the values of these users from events; users who are not exposed have none afterwards.

        The sums change with `store`.
        """
        for some in _chunks(users):
            with planned(**BY_INDEX):
                self._subtract(some)
                self._insert(some)
                if metrics := self.state.daily_metrics:
                    self._insert_days(self._source.of_users(some).of_metrics(metrics))
                self._change.add(1, self._sum(stored_values(self.experiment, some)))
                self._change_of_days.add(1, self._sum_days(self._days_of(some)))

    def remove(self, users: Sequence[str]) -> None:
        """Delete the values of these users. The sums change with `store`."""
        self._subtract(users)

    def store(self) -> None:
        """Make caps, sums and quantiles follow from the values that have changed."""
        if self._change.sums or self._change_of_days.sums:
            self._forget_quantiles()
            self._move_caps()
            self._store()

    def _subtract(self, users: Sequence[str]) -> None:
        values, days = stored_values(self.experiment, users), self._days_of(users)
        self._change.add(-1, self._sum(values))
        values.delete()
        if self.state.daily_metrics:
            self._change_of_days.add(-1, self._sum_days(days))
            days.delete()

    def _insert(self, users: Sequence[str] | None) -> None:
        source = self._source if users is None else self._source.of_users(users)
        selects = [select_exposures(source, self.experiment), *([select_values(source)] if source.definitions else [])]
        # In the order of their index, rows are stored in less time, and the index is smaller.
        insert_select(UserValue, *selects, order_by="user_id", state=self.state.pk)

    def _insert_days(self, source: Source) -> None:
        insert_select(DayValue, select_day_values(source), order_by="user_id", state=self.state.pk)

    def _days_of(self, users: Sequence[str]) -> QuerySet[DayValue]:
        return stored_day_values(self.experiment, users)

    def _forget_quantiles(self) -> None:
        """Have the quantiles computed again. Those of frozen results stay, because their events may be gone."""
        if self.experiment.frozen_at is None:
            self.state.quantiles = no_quantiles()

    def _store(self) -> None:
        store_change(VariantSums, self.experiment.pk, self._change)
        store_change(DailySums, self.experiment.pk, self._change_of_days)
        self._change, self._change_of_days = Change(), Change()
        commit_in_two_phases()
        keep_snapshots_from_beginning()

    # sums

    @property
    def summing(self) -> Summing:
        return summing_of(self.experiment, self.caps)

    def sums_of_values(self) -> Grouped:
        """Return the sums over all stored values, with the caps in force."""
        return self._sum(stored_values(self.experiment))

    def sums_of_days(self, metrics: Collection[int]) -> Grouped:
        """Return by how much the sums of these metrics change on each day, over all stored values of days."""
        rows = stored_day_values(self.experiment).filter(metric__in=metrics)
        return sum_day_values(rows, self.summing.of_metrics(metrics))

    def _sum(self, values: QuerySet[UserValue]) -> Grouped:
        return sum_values(values, self.summing, has_exposures=True)

    def _sum_days(self, days: QuerySet[DayValue]) -> Grouped:
        metrics = self.state.daily_metrics
        return sum_day_values(days, self.summing.of_metrics(metrics)) if metrics else {}

    # caps

    @property
    def caps(self) -> Caps:
        return {int(number): cap for number, cap in self.state.caps.items()}

    @caps.setter
    def caps(self, caps: Caps) -> None:
        self.state.caps = {str(number): cap for number, cap in caps.items()}

    def find_caps(self) -> Caps:
        """Return the caps that the stored values give: fixed ones, and percentiles of the values other than 0."""
        found = {
            number: find_cap(definition, self._ranked(number))
            for number, definition in self._source.definitions.items()
        }
        return {number: float(cap) for number, cap in found.items() if cap is not None}

    def _move_caps(self) -> None:
        """Find the caps at percentiles of metrics that have changed, and count users above an old or new one by it."""
        changed = self._percentiles.keys() & {number for number, *_ in self._change.sums}
        numbers, caps = self._count_nonzero(changed), {**self.caps}
        for number in changed:
            old = caps.pop(number, None)
            new = find_cap(self._percentiles[number], self._ranked(number), numbers[number])
            self._count_by(number, old, new)
            if new is not None:
                caps[number] = new
        self.caps = caps

    def _count_by(self, number: int, old: float | None, new: float | None) -> None:
        """Count the users above an old or new cap by the new one."""
        if new == old:
            return
        lower = min(cap for cap in (old, new) if cap is not None)
        is_above = Q(value__gt=lower) | Q(value_before__gt=lower)
        values = self._ranked(number).filter(is_above)
        days = stored_day_values(self.experiment).filter(is_above, metric=number, is_ranked=True)
        for sign, cap in ((-1, old), (1, new)):
            caps = {} if cap is None else {number: cap}
            summing = summing_of(self.experiment, caps).of_metrics([number])
            self._change.add(sign, sum_values(values, summing))
            if number in self.state.daily_metrics:
                self._change_of_days.add(sign, sum_day_values(days, summing))

    def _ranked(self, number: int) -> QuerySet[UserValue]:
        return stored_values(self.experiment).filter(metric=number, is_ranked=True)

    def _count_nonzero(self, metrics: Collection[int]) -> Counter[int]:
        """Return the number of users of each of these metrics whose value is not 0, from the sums and their change."""
        if not metrics:
            return Counter()
        stored = VariantSums.objects.filter(experiment=self.experiment, metric__in=metrics).order_by()
        numbers = Counter(dict(stored.values_list("metric").annotate(users=Sum("nonzero"))))
        for (number, *_), change in self._change.sums.items():
            numbers[number] += change.nonzero
        return numbers


def _chunks(users: Iterable[str]) -> Iterator[list[str]]:
    """Yield the users in the order of their ids, some at a time."""
    ordered = sorted(users)
    return (ordered[start : start + USERS_AT_ONCE] for start in range(0, len(ordered), USERS_AT_ONCE))
