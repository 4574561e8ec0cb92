"""Marking the users with great values, so that a cap at a percentile is found without reading all totals.

Such a cap moves with nearly every new event. For each of these metrics, the state has a bound below its cap. All users
with a value above the bound, before or since their exposure, have `UserTotal.is_near_cap`, which an index lists. Other
users may have it, too. About as many users are above the bound as are above the cap.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from experiments.aggregates.dialects import Parameters, execute, fetch
from experiments.aggregates.metric_columns import Layout, Put
from experiments.aggregates.ranks import find_by_rank
from experiments.models import AggregateState, UserTotal

LEAST_PERCENTILE = 90
"""Below it, so many users are above a cap that reading all totals takes as long."""
_ROOM = 1_000
"""How many more users than twice those above the cap are above the bound."""

_TABLE = UserTotal._meta.db_table

Bounds = Mapping[int, float]
"""The bounds of metrics, by metric index."""


class Bound(NamedTuple):
    """The bound of a metric, chosen when so many users had a value. It is None where too many users share the cap."""

    value: float | None
    users: int


def read_bounds(state: AggregateState) -> dict[int, Bound]:
    return {int(index): Bound(*bound) for index, bound in (state.bounds or {}).items()}


def values_of(bounds: Mapping[int, Bound]) -> Bounds:
    return {index: bound.value for index, bound in bounds.items() if bound.value is not None}


def is_above(figure: Callable[[str], str], bound: str) -> str:
    """Return SQL that says whether a value of a metric, before or since the exposure, is above a bound."""
    return f"({figure('y')} > {bound} OR {figure('x')} > {bound})"


def is_near_cap(bounds: Bounds, figure: Callable[[int, str], str], put: Put) -> str:
    """Return SQL that says whether the figures of a user are above the bound of a metric."""
    above = (is_above(lambda name, index=index: figure(index, name), put(bound)) for index, bound in bounds.items())  # type: ignore[misc]
    return f"({' OR '.join(above) or 'FALSE'})"


class NearCaps:
    """The bounds of an experiment, and the users who are marked for them."""

    def __init__(self, state: AggregateState, layout: Layout, *, are_known: bool) -> None:
        self._state, self._layout = state, layout
        self._bounds = read_bounds(state) if are_known else {}

    @property
    def bounds(self) -> Bounds:
        return values_of(self._bounds)

    def forget(self) -> None:
        """Forget all bounds, because no user is marked any more."""
        self._bounds = {}
        self._save()

    def choose(self, metric_index: int, rank: int, users: int) -> None:
        """Choose a bound for a metric, given the rank of its cap from above, and mark the users above it.

        This reads all totals. It does nothing where it did not help before, until twice as many users have a value.
        """
        before = self._bounds.get(metric_index)
        if before is not None and before.value is None and users < 2 * before.users + _ROOM:
            return
        cap, bound = (self._value_at(metric_index, at, "TRUE") for at in (rank, 2 * rank + _ROOM))
        has_room = bound is None or cap is None or bound < cap
        value = max(bound or 0.0, 0.0) if has_room else None
        self._set(metric_index, Bound(value, users))
        if value is not None:
            parameters = Parameters()
            above = is_above(lambda name: self._layout.figure(metric_index, name), parameters.put(value))
            self._mark("TRUE", f"NOT is_near_cap AND {above}", parameters)

    def raise_bound(self, metric_index: int, cap: float, rank: int, users: int) -> None:
        """Choose a higher bound once twice as many users have a value, or else ever more users would be above it.

        Where many users share the cap, there is none.
        """
        before = self._bounds[metric_index]
        if users < 2 * before.users + _ROOM:
            return
        found = self._value_at(metric_index, 2 * rank + _ROOM, "is_near_cap")
        if found is None or before.value is None or found <= before.value:
            self._set(metric_index, Bound(before.value, users))
            return
        self._set(metric_index, Bound(found if found < cap else None, users))
        parameters = Parameters()
        still = is_near_cap(self.bounds, self._layout.figure, parameters.put)
        self._mark("FALSE", f"is_near_cap AND NOT {still}", parameters)

    def count_unmarked(self, metric_index: int) -> int:
        """Return the number of users above the bound of a metric who are not marked, which must be 0."""
        parameters = Parameters()
        bound = self.bounds.get(metric_index)
        if bound is None:
            return 0
        above = is_above(lambda name: self._layout.figure(metric_index, name), parameters.put(bound))
        rows = self._rows(f"NOT is_near_cap AND {above}", parameters)
        [[number]] = fetch(f"SELECT COUNT(*) FROM {rows}", parameters)  # noqa: S608 (no data)
        return int(number)

    def _value_at(self, metric_index: int, rank: int, condition: str) -> float | None:
        """Return the value of a metric with a rank from above, among the users who meet a condition."""
        parameters, value = Parameters(), self._layout.figure(metric_index, "y")
        rows = self._rows(f"{condition} AND {value} <> 0", parameters)
        return find_by_rank(value, rows, parameters, rank)

    def _mark(self, value: str, condition: str, parameters: Parameters) -> None:
        chosen = self._is_chosen(condition, parameters)
        execute(f"UPDATE {_TABLE} SET is_near_cap = {value} WHERE {chosen}", parameters)  # noqa: S608 (no data)

    def _rows(self, condition: str, parameters: Parameters) -> str:
        return f"{_TABLE} WHERE {self._is_chosen(condition, parameters)}"

    def _is_chosen(self, condition: str, parameters: Parameters) -> str:
        return f"experiment_id = {parameters.put(self._state.pk)} AND {condition}"

    def _set(self, metric_index: int, bound: Bound) -> None:
        self._bounds[metric_index] = bound
        self._save()

    def _save(self) -> None:
        stored: dict[str, Any] = {str(index): [*bound] for index, bound in self._bounds.items()}
        self._state.bounds = stored
