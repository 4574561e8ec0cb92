"""CUPED: reduce the variance of values and comparisons by what the users did before their exposure.

y is replaced by y - θ (x - mean of x over all variants). θ = cov(x, y) / var(x) within variants,
pooled over variants and strata. A single θ keeps the differences unbiased. Source: Deng, Xu, Kohavi
& Walker 2013, "Improving the Sensitivity of Online Controlled Experiments by Utilizing Pre-Experiment
Data".

A ratio is adjusted through its linearised values: (y - R d) / mean(d) of a variant by
(x - Q e) / mean(e), where Q = Σx / Σe is the ratio of all variants before the exposure.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from experiments.stats.effects import NO_VARIANCE
from experiments.stats.samples import (
    NO_DENOMINATOR,
    NO_USERS,
    OUT_OF_RANGE,
    Sample,
    centred,
    squares_of_ratio,
    without_rounding,
)
from experiments.stats.types import Kind, Quantile, Reason, ReasonCode, Sums

NO_HISTORY = Reason(
    ReasonCode.NO_HISTORY, "All users had the same value before their exposure, so there is nothing to adjust by."
)
NOT_REGISTERED = Reason(ReasonCode.NOT_REGISTERED, "CUPED was not registered at the start, so values are not adjusted.")
DIFFERENT_BEFORE = Reason(
    ReasonCode.DIFFERENT_BEFORE, "The variants differed before the exposure already, so values are not adjusted."
)
NOT_FOR_QUANTILES = Reason(ReasonCode.NOT_FOR_QUANTILES, "CUPED does not adjust quantiles.")


@dataclass(frozen=True, slots=True)
class AdjustedStratum:
    """The adjusted samples by variant key.

    The mean of x over all variants is an estimate too. `shared` is the squared error that it adds to the mean of every
    variant alike. Differences do not contain it.
    """

    samples: Mapping[str, Sample]
    shared: float


@dataclass(frozen=True, slots=True)
class Adjustment:
    """The adjusted samples of each stratum.

    `variance_reduction` is the share (0 to 1) of the variance of y within variants that x explains.
    """

    theta: float
    variance_reduction: float
    strata: Sequence[AdjustedStratum]


def adjust(kind: Kind, strata: Sequence[Mapping[str, Sums | Quantile]]) -> Adjustment | Reason:
    """Return the adjusted samples from the sums of each stratum, by variant key.

    Variants without users are left out. The adjusted means are in units of the measure.
    """
    if kind == "quantile":
        return NOT_FOR_QUANTILES
    spread_in = _spreads_of_ratio if kind == "ratio" else _spreads
    spreads = [
        spread_in({key: sums for key, sums in stratum.items() if sums.n and isinstance(sums, Sums)})
        for stratum in strata
    ]
    for spread in spreads:
        if isinstance(spread, Reason):
            return spread
    return _adjust([spread for spread in spreads if not isinstance(spread, Reason)])


@dataclass(frozen=True, slots=True)
class _Spread:
    """The users of a variant in a stratum: means, and centred sums of squares and products.

    `before` is the mean of x, minus that of all variants in the stratum. `magnitude` returns the size of the sums for a
    θ, against which rounding is measured.
    """

    n: int
    mean: float
    before: float
    xx: float
    xy: float
    yy: float
    magnitude: Callable[[float], float]


_Spreads = Mapping[str, _Spread]


def _adjust(strata: Sequence[_Spreads]) -> Adjustment | Reason:
    spreads = [spread for stratum in strata for spread in stratum.values()]
    if not spreads:
        return NO_USERS
    xx, xy, yy = (math.fsum(column) for column in zip(*((s.xx, s.xy, s.yy) for s in spreads), strict=True))
    if xx == 0:
        return NO_HISTORY
    if yy == 0:
        return NO_VARIANCE
    theta = xy / xx
    adjusted = [_adjusted_stratum(stratum, theta) for stratum in strata]
    numbers = [
        *(theta, theta * (xy / yy), *(stratum.shared for stratum in adjusted)),
        *(number for stratum in adjusted for part in stratum.samples.values() for number in (part.mean, part.variance)),
    ]
    if not all(map(math.isfinite, numbers)):
        return OUT_OF_RANGE
    return Adjustment(theta, min(1.0, numbers[1]), adjusted)


def _adjusted_stratum(spreads: _Spreads, theta: float) -> AdjustedStratum:
    users = sum(spread.n for spread in spreads.values())
    freedom = users - len(spreads)
    variance = math.fsum(spread.xx for spread in spreads.values()) / freedom if freedom else 0.0
    shared = theta * (theta * variance) / users if users else 0.0
    return AdjustedStratum({key: _adjusted(spread, theta) for key, spread in spreads.items()}, shared)


def _adjusted(spread: _Spread, theta: float) -> Sample:
    squares = spread.yy - 2 * theta * spread.xy + theta * theta * spread.xx
    squares = without_rounding(squares, spread.n, spread.magnitude(theta))
    users = max(spread.n - 1, 1)
    return Sample(
        spread.n,
        spread.mean - theta * spread.before,
        squares / users,
        spread.n - 1,
        explained_product=theta * spread.xy / users,
        explained_square=theta * theta * spread.xx / users,
    )


def _spreads(exposed: Mapping[str, Sums]) -> _Spreads:
    users = sum(sums.n for sums in exposed.values())
    before = math.fsum(sums.x for sums in exposed.values()) / max(users, 1)
    return {key: _spread(sums, before) for key, sums in exposed.items()}


def _spread(sums: Sums, before: float) -> _Spread:
    xx, yy = centred(sums.n, sums.x, sums.xx), centred(sums.n, sums.y, sums.yy)
    return _Spread(
        sums.n,
        sums.y / sums.n,
        sums.x / sums.n - before,
        xx,
        sums.xy - sums.x / sums.n * sums.y if xx and yy else 0.0,
        yy,
        lambda theta: sums.yy + theta * theta * sums.xx,
    )


def _spreads_of_ratio(exposed: Mapping[str, Sums]) -> _Spreads | Reason:
    users = sum(sums.n for sums in exposed.values())
    denominator = math.fsum(sums.e for sums in exposed.values()) / max(users, 1)
    if denominator == 0:
        return NO_HISTORY if exposed else {}
    if not all(sums.d for sums in exposed.values()):
        return NO_DENOMINATOR
    ratio = math.fsum(sums.x for sums in exposed.values()) / users / denominator
    return {key: _spread_of_ratio(sums, ratio, denominator) for key, sums in exposed.items()}


def _spread_of_ratio(sums: Sums, before: float, denominator: float) -> _Spread:
    """Return the spread of the linearised values. Those of y have the mean 0, so products need no centre."""
    mean = sums.y / sums.d
    history = (sums.x - before * sums.e) / denominator
    xx, xe, ee = (total / denominator / denominator for total in (sums.xx, sums.xe, sums.ee))
    squares, size = xx - 2 * before * xe + before * before * ee, xx + before * before * ee
    centred_xx = without_rounding(squares - history / sums.n * history, sums.n, size)
    yy = squares_of_ratio(sums.n, (sums.d, sums.yy, sums.yd, sums.dd), mean)
    products = sums.xy - mean * sums.dx - before * sums.ye + mean * before * sums.de
    xy = products / denominator / (sums.d / sums.n) if centred_xx and yy else 0.0
    return _Spread(sums.n, mean, history / sums.n, centred_xx, xy, yy, lambda theta: yy + theta * theta * size)
