"""Sums over groups of users: all exposed users of a phase, a day or a slice, and those who count for each metric."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce

from experiments.models import EXPOSURE
from experiments.results.sums import ExactSums, MetricSums
from experiments.stats.types import Quantile, Sums

NOBODY = ExactSums()
_NAMES = {
    "y": "value",
    "yy": "value_squared",
    "d": "denominator",
    "dd": "denominator_squared",
    "yd": "value_denominator",
    "x": "value_before",
    "xx": "value_before_squared",
    "xy": "value_value_before",
    "e": "denominator_before",
    "ee": "denominator_before_squared",
    "xe": "value_before_denominator_before",
    "ye": "value_denominator_before",
    "dx": "denominator_value_before",
    "de": "denominator_denominator_before",
}
"""The exact sum for each sum that the statistics take."""

ByVariant = Mapping[str, ExactSums]


@dataclass(frozen=True, slots=True)
class Counted:
    """The users who count for one metric, by variant key, and the sums over them."""

    users: Mapping[str, int]
    sums: ByVariant

    def __add__(self, other: Counted) -> Counted:
        keys = dict.fromkeys([*self.users, *other.users])
        users = {key: self.users.get(key, 0) + other.users.get(key, 0) for key in keys}
        return Counted(users, _add(self.sums, other.sums))


@dataclass(frozen=True, slots=True)
class UserGroup:
    """Some users of an experiment: all who were exposed, by variant key, and those who count for each metric.

    A metric that is missing from `counted` counts all exposed users, by the `sums`. The `quantiles` are those
    that were read for exactly these users; they do not add up over groups.
    """

    sums: MetricSums
    counted: Mapping[int, Counted] = field(default_factory=dict)
    quantiles: Mapping[int, Mapping[str, Quantile]] = field(default_factory=dict)

    @property
    def exposed(self) -> ByVariant:
        return self.sums.get(EXPOSURE, {})

    @property
    def users(self) -> Mapping[str, int]:
        """Return the numbers of exposed users by variant key."""
        return {key: sums.users for key, sums in self.exposed.items()}

    @property
    def several(self) -> int:
        return sum(sums.in_several_variants for sums in self.exposed.values())

    def of(self, metric: int) -> Counted:
        """Return the users who count for a metric."""
        return self.counted.get(metric) or Counted(self.users, self.sums.get(metric, {}))

    def sums_of(self, metric: int) -> Mapping[str, Sums]:
        """Return the input of the statistics for a metric, by the key of each variant with users."""
        counted = self.of(metric)
        return {key: sums_of(users, counted.sums.get(key, NOBODY)) for key, users in counted.users.items()}

    def __add__(self, other: UserGroup) -> UserGroup:
        indexes = dict.fromkeys([*self.counted, *other.counted])
        metrics = dict.fromkeys([*self.sums, *other.sums])
        return UserGroup(
            {index: _add(self.sums.get(index, {}), other.sums.get(index, {})) for index in metrics},
            {index: self.of(index) + other.of(index) for index in indexes},
        )


EMPTY = UserGroup({})


def pool_groups(groups: Iterable[UserGroup]) -> UserGroup:
    """Return the users of all groups together. The groups have no users in common."""
    return reduce(UserGroup.__add__, groups, EMPTY)


def sums_of(users: int, sums: ExactSums) -> Sums:
    """Return the sums over this many exposed users. Exact sums leave out users without an event, who count as zeros."""
    numbers = {name: float(getattr(sums, exact)) for name, exact in _NAMES.items()}
    # Sums that were frozen before version 0.2 have no number of active users.
    return Sums(n=users, nonzero=max(sums.nonzero, sums.positive, sums.active), **numbers)


def pooled(by_phase: Mapping[int, UserGroup], phases: Sequence[int]) -> UserGroup:
    return pool_groups(by_phase[phase] for phase in phases if phase in by_phase)


def _add(left: ByVariant, right: ByVariant) -> ByVariant:
    if not left or not right:
        return left or right
    keys = dict.fromkeys([*left, *right])
    return {key: left.get(key, NOBODY) + right.get(key, NOBODY) for key in keys}
