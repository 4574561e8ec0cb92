"""Users who were assigned by different weights: each variant's mean is combined over the strata.

A treatment is compared with the control in the strata in which both have at least two users. Treatments with the same
strata form a group, which is analysed with the control as if there were no other users. A stratum has the weight of its
users among all users of the group. So both variants of a comparison have the same mix of strata, and a difference
between the times of the strata is no effect. A treatment that is added later has a group of its own and changes nothing
in the others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from experiments.stats import cuped
from experiments.stats.samples import NO_USERS, Sample, combine, summarise
from experiments.stats.types import Cuped, Kind, Measure, Quantile, Reason, ReasonCode, Sums

BySums = Mapping[str, Sums | Quantile]
NOBODY = Sums()
NOT_TOGETHER = Reason(ReasonCode.TOO_FEW_USERS, "In no phase do both variants have at least two users that count.")
NO_HISTORY = cuped.NO_HISTORY


@dataclass(frozen=True, slots=True)
class Arms:
    """The samples of a measure by variant key, and the squared error that all means share.

    `sums` are the sums behind plain samples, and None for samples that are adjusted or combined from several strata.
    """

    samples: Mapping[str, Sample | Reason]
    shared: float = 0.0
    sums: BySums | None = None
    missing: Reason = NO_USERS

    def of(self, key: str) -> Sample | Reason:
        return self.samples.get(key, self.missing)


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
        strata = self.adjustment.strata
        pairs = list(zip(self.weights, strata, strict=True))
        shared = math.fsum(weight * weight * stratum.shared for weight, stratum in pairs)
        return Arms(self._combined([stratum.samples for stratum in strata]), shared)

    def _plain(self, kind: Kind, select: Callable[[Sums | Quantile], Sums | Quantile]) -> Arms:
        if len(self.strata) == 1:
            sums = {key: select(of_variant) for key, of_variant in self.strata[0].items()}
            return Arms({key: summarise(kind, of_variant) for key, of_variant in sums.items()}, sums=sums)
        if not self.strata:
            return Arms({}, missing=NOT_TOGETHER)
        return Arms(
            self._combined(
                [{key: summarise(kind, select(sums)) for key, sums in stratum.items()} for stratum in self.strata]
            )
        )

    def _combined(self, strata: Sequence[Mapping[str, Sample | Reason]]) -> Mapping[str, Sample | Reason]:
        return {
            key: _combine(
                [(weight, samples.get(key, NO_USERS)) for weight, samples in zip(self.weights, strata, strict=True)]
            )
            for key in dict.fromkeys(key for samples in strata for key in samples)
        }


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
