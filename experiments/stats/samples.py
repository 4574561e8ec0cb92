"""The users of one variant, from their sums: number, mean and variance."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

from experiments.stats.types import Kind, Quantile, Reason, ReasonCode, Sums

NO_USERS = Reason(ReasonCode.TOO_FEW_USERS, "No user of this variant counts yet.")
NO_DENOMINATOR = Reason(ReasonCode.NO_DENOMINATOR, "The denominator is 0 over all users of this variant.")
NO_EVENTS = Reason(ReasonCode.NO_EVENTS, "No event of this variant has a value.")
NOT_STORED = Reason(
    ReasonCode.QUANTILE_NOT_STORED,
    "Quantiles do not add up, so past days have none, and neither has a breakdown of frozen results.",
)
OUT_OF_RANGE = Reason(ReasonCode.OUT_OF_RANGE, "The values are too large, or too different in size, to compute with.")
NO_ERROR = Reason(
    ReasonCode.NO_VARIANCE,
    "The uncertainty of the quantile is unknown: one side of it has fewer than 10 events of different users, "
    "or all events of a variant have the same value.",
)


@dataclass(frozen=True, slots=True)
class Sample:
    """The number of users `n`, the estimate of the variant (`mean`), and the variance of one user.

    The variance divides by n - 1 and is 0 for a single user. For a ratio, it is that of the linearised ratio, and for a
    quantile n times the squared error. `freedom` has its degrees of freedom. `unknown` says why there is no variance to
    compare with, if there is none. Of values that are adjusted for history, `explained_square` is the variance of what
    history explains, and `explained_product` its covariance with the raw values; otherwise both are 0.
    """

    n: int
    mean: float
    variance: float
    freedom: float
    unknown: Reason | None = None
    explained_product: float = 0.0
    explained_square: float = 0.0

    @property
    def squared_error(self) -> float:
        """Return the square of the mean's standard error."""
        return self.variance / self.n


def summarise(kind: Kind, sums: Sums | Quantile) -> Sample | Reason:
    """Return the number, mean and variance of the users behind `sums`, in units of the measure.

    A ratio is linearised by the delta method: with R = Σy / Σd, its variance is that of
    (y - R d) / mean(d), whose mean over users is 0. Source: Deng, Knoblich & Lu 2018, "Applying the
    Delta Method in Metric Analytics".
    """
    if sums.n < 1:
        return NO_USERS
    if isinstance(sums, Quantile):
        return _of_quantile(sums)
    if kind == "ratio":
        if sums.d == 0:
            return NO_DENOMINATOR
        mean = sums.y / sums.d
        squares = squares_of_ratio(sums.n, (sums.d, sums.yy, sums.yd, sums.dd), mean)
    else:
        mean = sums.y / sums.n
        squares = sums.y * (1 - mean) if kind == "share" else centred(sums.n, sums.y, sums.yy)
    return sample(sums.n, mean, squares / max(sums.n - 1, 1))


def sample(n: int, mean: float, variance: float) -> Sample | Reason:
    """Return the sample of n users, if its numbers are finite."""
    return Sample(n, mean, variance, n - 1) if math.isfinite(mean) and math.isfinite(variance) else OUT_OF_RANGE


def _of_quantile(quantile: Quantile) -> Sample | Reason:
    if not quantile.events:
        return NO_EVENTS if quantile.is_known else NOT_STORED
    of_quantile = sample(quantile.n, quantile.value, quantile.squared_error * quantile.n)
    if isinstance(of_quantile, Reason) or quantile.squared_error:
        return of_quantile
    return replace(of_quantile, unknown=NO_ERROR)


def combine(strata: Sequence[tuple[float, Sample]]) -> Sample | Reason:
    """Combine one variant's samples of several strata by the weights of the strata, which add up to 1.

    The degrees of freedom are Satterthwaite's (1946, Biometrics Bulletin 2:110).
    """
    if len(strata) == 1:
        return strata[0][1]
    n = sum(part.n for _, part in strata)
    mean = math.fsum(weight * part.mean for weight, part in strata)
    errors = [(weight * weight * part.squared_error, part.freedom) for weight, part in strata]
    squared_error = math.fsum(error for error, _ in errors)
    if not math.isfinite(mean) or not math.isfinite(squared_error * n):
        return OUT_OF_RANGE
    shares = ((error / squared_error, freedom) for error, freedom in errors if error)
    freedom = 1 / sum(share * share / freedom for share, freedom in shares) if squared_error else n - len(strata)
    unknown = next((part.unknown for _, part in strata if part.unknown), None)
    return Sample(n, mean, squared_error * n, freedom, unknown)


def centred(n: int, total: float, squares: float) -> float:
    """Return Σ(v - mean)² from Σv and Σv²; 0 if rounding may account for it, as for equal users."""
    return without_rounding(squares - total / n * total, n, squares)


def without_rounding(value: float, n: int, magnitude: float) -> float:
    """Return `value`, a difference of sums of n numbers, or 0 if rounding may account for it.

    `magnitude` is the size of the sums. Return infinity if the sums are too large to subtract.
    """
    if not math.isfinite(magnitude):
        return math.inf
    return value if value > n * sys.float_info.epsilon * magnitude else 0.0


def squares_of_ratio(n: int, sums: tuple[float, float, float, float], ratio: float) -> float:
    """Return Σ(y - R d)² / mean(d)², from Σd (other than 0), Σy², Σyd and Σd²."""
    denominator = sums[0] / n
    # Divide first: the squares of large values over small ones would overflow.
    yy, yd, dd = (total / denominator / denominator for total in sums[1:])
    return without_rounding(yy - 2 * ratio * yd + ratio * ratio * dd, n, yy + ratio * ratio * dd)
