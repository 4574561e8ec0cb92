"""Changing the totals of users together with the sums over them, so that these are the sums of the totals at any time.

Users leave the sums with what they counted, and come back with what they count now; sums are exact, so that nothing of
the former is left. Whoever calls this holds the experiment's fold.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Literal

from django.db.models import Sum

from config.database.insertion import insert
from experiments.aggregates.caps import count_measured, find_cap
from experiments.aggregates.dialects import Parameters, is_chosen
from experiments.aggregates.metric_columns import Layout
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
from experiments.models import AggregateState, Experiment, UserTotal, VariantSums

USERS_AT_ONCE = 10_000

_OLD, _NEW = 0, 1
_TABLE = UserTotal._meta.db_table


class AggregateUpdater:
    """The totals and sums of one experiment. The caps in force stand in its fold, which the caller saves."""

    def __init__(self, held: AggregateState, experiment: Experiment) -> None:
        self.held, self.experiment = held, experiment
        self.definitions: Mapping[int, Definition] = dict(enumerate(definitions_of(experiment)))
        self.layout = Layout([*self.definitions.values()])

    def compute_all(self) -> None:
        """Compute all totals from events, and all sums from totals."""
        UserTotal.objects.filter(experiment=self.experiment).delete()
        VariantSums.objects.filter(experiment=self.experiment).delete()
        exposed = exposed_users(self.experiment)
        if is_quicker_in_one_pass(self.experiment, exposed.count()):
            write_totals(self.experiment, None)
        else:
            for some in _chunks(set(exposed.values_list("user_id", flat=True))):
                write_totals(self.experiment, some)
        self.caps = self.find_caps()
        change = Change()
        change.add(1, self.sums_of_totals())
        self._store(change)

    def compute(self, users: Collection[str]) -> None:
        """Compute the totals of these users from events. Who is not exposed has none."""
        change = Change()
        for some in _chunks(users):
            change.add(-1, self._sums_of(some))
            write_totals(self.experiment, some)
            change.add(1, self._sums_of(some))
        self._store(change)
        self._move_caps()

    def remove(self, user_id: str) -> None:
        """Forget the totals of a user."""
        change = Change()
        change.add(-1, self._sums_of([user_id]))
        delete_totals(self.experiment, [user_id])
        self._store(change)
        self._move_caps()

    def find_caps(self) -> Caps:
        """Where the caps lie, by the totals as they are."""
        return self._find_caps(lambda place: count_measured(self.experiment, place))

    def sums_of_totals(self) -> DailySums:
        """What all totals come to by the caps in force."""
        return self._sum_up("TRUE", Parameters(), counted(self.experiment, self.caps))

    @property
    def caps(self) -> Caps:
        return {int(place): cap for place, cap in self.held.caps.items()}

    @caps.setter
    def caps(self, caps: Caps) -> None:
        self.held.caps = {str(place): cap for place, cap in caps.items()}

    def _move_caps(self) -> None:
        """Find the caps anew, and have the users above an old one or a new one count by the new."""
        measured = self._measured()
        old, new, change = self.caps, self._find_caps(lambda place: measured.get(place, 0)), Change()
        for place in old.keys() | new.keys():
            if old.get(place) != new.get(place):
                change.add(1, self._difference(place, old.get(place), new.get(place)))
        self._store(change)
        self.caps = new

    def _find_caps(self, measured: Callable[[int], int]) -> Caps:
        found = {place: find_cap(self.experiment, place, each, measured) for place, each in self.definitions.items()}
        return {place: cap for place, cap in found.items() if cap is not None}

    def _measured(self) -> Mapping[int, int]:
        """The users of each metric whose value is not 0, by the sums."""
        sums = VariantSums.objects.filter(experiment=self.experiment)
        return dict(sums.values_list("metric").annotate(users=Sum("measured")))

    def _sums_of(self, users: list[str]) -> DailySums:
        parameters = Parameters()
        return self._sum_up(
            is_chosen("user_id", users, parameters.put), parameters, counted(self.experiment, self.caps)
        )

    def _difference(self, place: int, old: float | None, new: float | None) -> DailySums:
        """What it makes that a metric has another cap: to those users who lie above the lower one."""
        parameters, definition = Parameters(), self.definitions[place]
        figure = partial(self.layout.figure, place)
        lowest = min(cap for cap in (old, new) if cap is not None)
        above = (f"{figure(name)} > {parameters.put(lowest)}" for name in ("y", "x"))
        both = [Counted(label, definition, cap, figure) for label, cap in ((_OLD, old), (_NEW, new))]
        change = Change()
        for (label, variant, phase, day), sums in self._sum_up(f"({' OR '.join(above)})", parameters, both).items():
            if label != EXPOSURES:
                change.add(1 if label == _NEW else -1, {(place, variant, phase, day): sums})
        return change.sums

    def _sum_up(self, condition: str, parameters: Parameters, metrics: Sequence[Counted]) -> DailySums:
        rows = f"{_TABLE} WHERE experiment_id = {parameters.put(self.experiment.pk)} AND {condition}"
        return sum_by_day(rows, metrics, parameters)

    def _store(self, change: Change) -> None:
        """Change the sums by so much, those of each day together."""
        if not change.sums:
            return
        days = {day for *_, day in change.sums}
        stored = VariantSums.objects.filter(experiment=self.experiment, day__in=days)
        for place, variant, phase, day, *sums in stored.values_list(*KEY, *NAMES):
            change.add(1, {(place, variant, phase, day): VariantTotals(*sums)})
        stored.delete()
        rows = [
            [self.experiment.pk, place, variant, phase, day.isoformat(), *map(str, sums.values())]
            for (place, variant, phase, day), sums in change.sums.items()
            if any(sums.values())
        ]
        insert(VariantSums, ["experiment_id", *KEY, *NAMES], rows, "")


class Change:
    """What is to be added to sums."""

    def __init__(self) -> None:
        self.sums: DailySums = {}

    def add(self, sign: Literal[1, -1], sums: DailySums) -> None:
        for key, each in sums.items():
            self.sums[key] = self.sums.get(key, VariantTotals()) + (each if sign == 1 else -each)


def _chunks(users: Collection[str]) -> Iterator[list[str]]:
    """In the order of the keys of the totals."""
    ordered = sorted(users)
    return (ordered[at : at + USERS_AT_ONCE] for at in range(0, len(ordered), USERS_AT_ONCE))
