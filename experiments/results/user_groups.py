"""Sums over groups of users: all exposed users of a phase, a day or a slice, and those who count for each metric."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce

from experiments.aggregates.variant_sums import EXPOSURES, NAMES, Totals, VariantTotals
from experiments.stats.types import Quantile, Sums

NOBODY = VariantTotals()
_MOMENTS = tuple(name for name in NAMES if name in Sums.__dataclass_fields__ and name != "positive")

ByVariant = Mapping[str, VariantTotals]


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

    A metric that is missing from `counted` counts all exposed users, by the sums of `totals`. The `quantiles` are those
    that were read for exactly these users; they do not add up over groups.
    """

    totals: Totals
    counted: Mapping[int, Counted] = field(default_factory=dict)
    quantiles: Mapping[int, Mapping[str, Quantile]] = field(default_factory=dict)

    @property
    def exposed(self) -> ByVariant:
        return self.totals.get(EXPOSURES, {})

    @property
    def users(self) -> Mapping[str, int]:
        """Return the numbers of exposed users by variant key."""
        return {key: totals.users for key, totals in self.exposed.items()}

    @property
    def several(self) -> int:
        return sum(totals.several for totals in self.exposed.values())

    def of(self, metric_index: int) -> Counted:
        """Return the users who count for a metric."""
        return self.counted.get(metric_index) or Counted(self.users, self.totals.get(metric_index, {}))

    def sums_of(self, metric_index: int) -> Mapping[str, Sums]:
        """Return the input of the statistics for a metric, by the key of each variant with users."""
        counted = self.of(metric_index)
        return {key: sums_of(users, counted.sums.get(key, NOBODY)) for key, users in counted.users.items()}

    def __add__(self, other: UserGroup) -> UserGroup:
        indexes = dict.fromkeys([*self.counted, *other.counted])
        metrics = dict.fromkeys([*self.totals, *other.totals])
        return UserGroup(
            {index: _add(self.totals.get(index, {}), other.totals.get(index, {})) for index in metrics},
            {index: self.of(index) + other.of(index) for index in indexes},
        )


EMPTY = UserGroup({})


def pool_groups(groups: Iterable[UserGroup]) -> UserGroup:
    """Return the users of all groups together. The groups have no users in common."""
    return reduce(UserGroup.__add__, groups, EMPTY)


def sums_of(users: int, totals: VariantTotals) -> Sums:
    """Return the sums over this many exposed users. The totals leave out users without an event, who count as zeros."""
    moments = {name: float(getattr(totals, name)) for name in _MOMENTS}
    return Sums(n=users, positive=totals.positive, **moments)


def pooled(by_phase: Mapping[int, UserGroup], phases: Sequence[int]) -> UserGroup:
    return pool_groups(by_phase[phase] for phase in phases if phase in by_phase)


def _add(left: ByVariant, right: ByVariant) -> ByVariant:
    if not left or not right:
        return left or right
    keys = dict.fromkeys([*left, *right])
    return {key: left.get(key, NOBODY) + right.get(key, NOBODY) for key in keys}
