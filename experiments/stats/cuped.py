"""CUPED: reduce the variance of comparisons by what the users did before their exposure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from experiments.stats.effects import NO_VARIANCE
from experiments.stats.samples import NO_USERS, OUT_OF_RANGE, Sample, centred, without_rounding
from experiments.stats.types import Kind, Reason, ReasonCode, Sums

NO_HISTORY = Reason(
    ReasonCode.NO_HISTORY, "All users had the same value before their exposure, so there is nothing to adjust by."
)
NOT_FOR_RATIOS = Reason(ReasonCode.NOT_FOR_RATIOS, "CUPED does not adjust ratios.")


@dataclass(frozen=True, slots=True)
class Adjustment:
    """The adjusted samples by variant key; variants without users are left out.

    `variance_reduction` is the share (0 to 1) of the variance of y within variants that x explains.
    """

    theta: float
    variance_reduction: float
    samples: Mapping[str, Sample]


def adjust(kind: Kind, sums: Mapping[str, Sums]) -> Adjustment | Reason:
    """Replace y by y - θ (x - mean of x over all variants).

    θ = cov(x, y) / var(x) within variants, pooled over the variants. A single θ for all variants
    keeps the differences unbiased. Source: Deng, Xu, Kohavi & Walker 2013, "Improving the
    Sensitivity of Online Controlled Experiments by Utilizing Pre-Experiment Data".

    `sums` are by variant key. The adjusted means are in units of the measure.
    """
    if kind == "ratio":
        return NOT_FOR_RATIOS
    exposed = {key: of_variant for key, of_variant in sums.items() if of_variant.n}
    if not exposed:
        return NO_USERS
    spreads = [_Spread.of(of_variant) for of_variant in exposed.values()]
    xx, xy, yy = (
        math.fsum(column) for column in zip(*((spread.xx, spread.xy, spread.yy) for spread in spreads), strict=True)
    )
    if xx == 0:
        return NO_HISTORY
    if yy == 0:
        return NO_VARIANCE
    theta = xy / xx
    users = sum(of_variant.n for of_variant in exposed.values())
    before = math.fsum(of_variant.x for of_variant in exposed.values()) / users
    samples = {
        key: _adjusted(of_variant, spread, theta, before)
        for (key, of_variant), spread in zip(exposed.items(), spreads, strict=True)
    }
    reduction = min(1.0, theta * (xy / yy))
    numbers = (theta, reduction, *(number for sample in samples.values() for number in (sample.mean, sample.variance)))
    return Adjustment(theta, reduction, samples) if all(map(math.isfinite, numbers)) else OUT_OF_RANGE


@dataclass(frozen=True, slots=True)
class _Spread:
    """The centred sums of squares and products over the users of one variant."""

    xx: float
    xy: float
    yy: float

    @classmethod
    def of(cls, sums: Sums) -> _Spread:
        xx, yy = centred(sums.n, sums.x, sums.xx), centred(sums.n, sums.y, sums.yy)
        return cls(xx, sums.xy - sums.x / sums.n * sums.y if xx and yy else 0.0, yy)


def _adjusted(sums: Sums, spread: _Spread, theta: float, before: float) -> Sample:
    mean = (sums.y - theta * (sums.x - before * sums.n)) / sums.n
    squares = spread.yy - 2 * theta * spread.xy + theta * theta * spread.xx
    squares = without_rounding(squares, sums.n, sums.yy + theta * theta * sums.xx)
    return Sample(sums.n, mean, squares / max(sums.n - 1, 1))
