"""Users who were assigned by different weights: each variant's mean is combined over the strata.

A treatment is compared with the control in the strata in which both have at least two users. Treatments with the same
strata form a group, which is analysed with the control as if there were no other users. A stratum has the weight of its
users among all users of the group. So both variants of a comparison have the same mix of strata, and a difference
between the times of the strata is no effect. A treatment that is added later has a group of its own and changes nothing
in the others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from experiments.stats import cuped
from experiments.stats.effects import ONE_USER, Pair
from experiments.stats.means import Means, MeansOfStratum
from experiments.stats.plans import Part, PlannedPair, exact_weights
from experiments.stats.samples import NO_USERS, Sample, combine, summarise
from experiments.stats.shares import Shares, SharesOfStratum
from experiments.stats.types import Cuped, Kind, Measure, Quantile, Reason, ReasonCode, Stratum, Sums

BySums = Mapping[str, Sums | Quantile]
NOBODY = Sums()
_NONE = Fraction(0)
NOT_TOGETHER = Reason(ReasonCode.TOO_FEW_USERS, "In no phase do both variants have at least two users that count.")
NO_HISTORY = cuped.NO_HISTORY


@dataclass(frozen=True, slots=True)
class ArmsOfStratum:
    """The samples of a stratum by variant key, and the squared error that all their means share.

    The weights of strata add up to 1.
    """

    weight: float
    samples: Mapping[str, Sample | Reason]
    shared: float = 0.0


@dataclass(frozen=True, slots=True)
class Arms:
    """The samples of a measure by variant key, combined over strata, and the squared error that all means share.

    `sums` are the sums behind plain samples of one stratum, and None for others. With `are_shares`, the means are plain
    shares of users. `missing` is the reason why other variants have no sample. `is_adjusted` says that the samples are
    adjusted for history.
    """

    samples: Mapping[str, Sample | Reason]
    strata: Sequence[ArmsOfStratum]
    are_shares: bool = False
    sums: BySums | None = None
    missing: Reason = NO_USERS
    is_adjusted: bool = False

    @classmethod
    def combined(
        cls,
        strata: Sequence[ArmsOfStratum],
        *,
        are_shares: bool = False,
        sums: BySums | None = None,
        is_adjusted: bool = False,
    ) -> Arms:
        keys = dict.fromkeys(key for part in strata for key in part.samples)
        samples = {key: _combine([(part.weight, part.samples.get(key, NO_USERS)) for part in strata]) for key in keys}
        return cls(samples, strata, are_shares, sums, is_adjusted=is_adjusted)

    @property
    def shared(self) -> float:
        return math.fsum(part.weight * part.weight * part.shared for part in self.strata)

    def of(self, key: str) -> Sample | Reason:
        return self.samples.get(key, self.missing)

    def pair(self, key: str, control: str, *, is_non_negative: bool) -> Pair | Reason:
        """Return the test of a treatment against the control, or the reason why there is none."""
        treatment, other = self.of(key), self.of(control)
        if isinstance(treatment, Reason):
            return treatment
        if isinstance(other, Reason):
            return other
        pairs = [*self._pairs(key, control)]
        if any(min(one.n, another.n) < 2 for _, one, another in pairs):
            return ONE_USER
        if unknown := treatment.unknown or other.unknown:
            return unknown
        if self.are_shares:
            return Shares([SharesOfStratum.of(part.weight, one, another) for part, one, another in pairs])
        parts = [
            MeansOfStratum(part.weight, one, another, part.shared, is_non_negative) for part, one, another in pairs
        ]
        return Means(treatment.mean, other.mean, parts, is_non_negative)

    def _pairs(self, key: str, control: str) -> Iterator[tuple[ArmsOfStratum, Sample, Sample]]:
        for part in self.strata:
            one, another = part.samples[key], part.samples[control]
            if isinstance(one, Sample) and isinstance(another, Sample):
                yield part, one, another


@dataclass(frozen=True)
class Strata:
    """A measure in the strata that are compared."""

    measure: Measure
    strata: Sequence[BySums]

    @cached_property
    def weights(self) -> Sequence[float]:
        users = [sum(sums.n for sums in stratum.values()) for stratum in self.strata]
        return [count / max(sum(users), 1) for count in users]

    @cached_property
    def raw(self) -> Arms:
        return self._plain(self.measure.kind, lambda sums: sums)

    @cached_property
    def before(self) -> Arms | Reason:
        """Return the samples before the exposure, if users have a history."""
        if self.measure.kind == "quantile":
            return cuped.NOT_FOR_QUANTILES
        if not any(_history(sums).yy or _history(sums).dd for stratum in self.strata for sums in stratum.values()):
            return NO_HISTORY
        kind: Kind = "ratio" if self.measure.kind == "ratio" else "mean"
        return self._plain(kind, _history)

    @cached_property
    def adjustment(self) -> cuped.Adjustment | Reason:
        return cuped.adjust(self.measure.kind, self.strata)

    @property
    def cuped(self) -> Cuped | Reason:
        adjustment = self.adjustment
        if isinstance(adjustment, Reason):
            return adjustment
        return Cuped(adjustment.theta, adjustment.variance_reduction)

    @cached_property
    def adjusted(self) -> Arms | None:
        """Return the adjusted samples; None if they cannot be adjusted."""
        if isinstance(self.adjustment, Reason):
            return None
        parts = zip(self.weights, self.adjustment.strata, strict=True)
        adjusted = [ArmsOfStratum(weight, part.samples, part.shared) for weight, part in parts]
        return Arms.combined(adjusted, is_adjusted=True)

    def _plain(self, kind: Kind, select: Callable[[Sums | Quantile], Sums | Quantile]) -> Arms:
        if not self.strata:
            return Arms({}, (), missing=NOT_TOGETHER)
        sums = [{key: select(of_variant) for key, of_variant in stratum.items()} for stratum in self.strata]
        samples = [{key: summarise(kind, of_variant) for key, of_variant in stratum.items()} for stratum in sums]
        strata = [ArmsOfStratum(weight, part) for weight, part in zip(self.weights, samples, strict=True)]
        return Arms.combined(strata, are_shares=kind == "share", sums=sums[0] if len(sums) == 1 else None)


def _combine(parts: Sequence[tuple[float, Sample | Reason]]) -> Sample | Reason:
    for _, part in parts:
        if isinstance(part, Reason):
            return part
    return combine([(weight, part) for weight, part in parts if isinstance(part, Sample)])


def _history(sums: Sums | Quantile) -> Sums:
    """Return the sums from before the exposure."""
    if isinstance(sums, Quantile):
        return NOBODY
    return Sums(n=sums.n, y=sums.x, yy=sums.xx, d=sums.e, dd=sums.ee, yd=sums.xe)


@dataclass(frozen=True, slots=True)
class ComparisonGroup:
    """The control and the treatments that are compared with it in the same strata, by index."""

    indexes: tuple[int, ...]
    strata: Strata

    def users(self, key: str) -> int:
        """Return the number of users of a variant who count in these strata."""
        return sum(stratum[key].n for stratum in self.strata.strata if key in stratum)


def group_variants(
    measure: Measure, strata: Sequence[BySums], control: str, treatments: Sequence[str]
) -> Mapping[str, ComparisonGroup]:
    """Return the group of each variant. The control's is the one with the most of its users."""
    compared_in = {key: usable(strata, (control, key)) for key in treatments}
    groups = {}
    for indexes in dict.fromkeys(compared_in.values()):
        keys = {control, *(key for key in treatments if compared_in[key] == indexes)}
        parts = [{key: sums for key, sums in strata[index].items() if key in keys} for index in indexes]
        groups[indexes] = ComparisonGroup(indexes, Strata(measure, parts))
    widest = max(
        groups.values(), key=lambda group: group.users(control), default=ComparisonGroup((), Strata(measure, []))
    )
    return {control: widest, **{key: groups[indexes] for key, indexes in compared_in.items()}}


def usable(strata: Sequence[BySums], keys: Collection[str]) -> tuple[int, ...]:
    """Return the indexes of the strata with at least two users in each of the variants.

    A single stratum is always usable: what is missing there is missing altogether.
    """
    if len(strata) == 1:
        return (0,)
    return tuple(index for index, stratum in enumerate(strata) if all(stratum.get(key, NOBODY).n >= 2 for key in keys))


def share_of_plan(
    pair: PlannedPair, group: ComparisonGroup, strata: Sequence[Stratum], keys: tuple[str, str]
) -> float | None:
    """Return the part of the planned information that a treatment and the control have; None without users in one.

    `strata` are all strata, of which the group compares some.
    """
    key, control = keys
    parts = [
        Part(weight, stratum.get(key, NOBODY).n, stratum.get(control, NOBODY).n)
        for weight, stratum in zip(group.strata.weights, group.strata.strata, strict=True)
    ]
    if not parts or not all(part.treatment and part.control for part in parts):
        return None
    weights = [exact_weights(strata[index].variants) for index in group.indexes]
    is_as_planned = all(pair.is_split_of(each.get(key, _NONE), each.get(control, _NONE)) for each in weights)
    return pair.share(parts, is_as_planned=is_as_planned)
