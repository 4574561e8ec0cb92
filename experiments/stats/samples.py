"""The users of one variant, from their sums: number, mean and variance."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass

from experiments.stats.types import Kind, Reason, ReasonCode, Sums

NO_USERS = Reason(ReasonCode.TOO_FEW_USERS, "No user has been exposed to this variant yet.")
NO_DENOMINATOR = Reason(ReasonCode.NO_DENOMINATOR, "The denominator is 0 over all users of this variant.")
OUT_OF_RANGE = Reason(ReasonCode.OUT_OF_RANGE, "The values are too large, or too different in size, to compute with.")


@dataclass(frozen=True, slots=True)
class Sample:
    """The number of users `n`, their mean, and the variance of one user.

    The variance divides by n - 1 and is 0 for a single user. For a ratio, it is the variance of the
    linearised ratio.
    """

    n: int
    mean: float
    variance: float

    @property
    def squared_error(self) -> float:
        """Return the square of the mean's standard error."""
        return self.variance / self.n


def summarise(kind: Kind, sums: Sums) -> Sample | Reason:
    """Return the number, mean and variance of the users behind `sums`, in units of the measure.

    A ratio is linearised by the delta method: with R = Σy / Σd, its variance is that of
    (y - R d) / mean(d), whose mean over users is 0. Source: Deng, Knoblich & Lu 2018, "Applying the
    Delta Method in Metric Analytics".
    """
    if sums.n < 1:
        return NO_USERS
    match kind:
        case "share":
            mean = sums.y / sums.n
            squares = sums.y * (1 - mean)
        case "mean":
            mean = sums.y / sums.n
            squares = centred(sums.n, sums.y, sums.yy)
        case "ratio":
            if sums.d == 0:
                return NO_DENOMINATOR
            mean = sums.y / sums.d
            squares = _squares_of_ratio(sums, mean)
    sample = Sample(sums.n, mean, squares / max(sums.n - 1, 1))
    return sample if math.isfinite(mean) and math.isfinite(sample.variance) else OUT_OF_RANGE


def centred(n: int, total: float, squares: float) -> float:
    """Return Σ(v - mean)² from Σv and Σv²; 0 where rounding may account for it, as for equal users."""
    return without_rounding(squares - total / n * total, n, squares)


def without_rounding(value: float, n: int, magnitude: float) -> float:
    """Return `value`, a difference of sums of n numbers, or 0 where rounding may account for it.

    `magnitude` is the size of the sums. The answer is infinite where the sums are too large to
    subtract.
    """
    if not math.isfinite(magnitude):
        return math.inf
    return value if value > n * sys.float_info.epsilon * magnitude else 0.0


def _squares_of_ratio(sums: Sums, ratio: float) -> float:
    """Return Σ(y - R d)² / mean(d)²."""
    denominator = sums.d / sums.n
    # Divide first: the squares of large values over small ones would overflow.
    yy, yd, dd = (total / denominator / denominator for total in (sums.yy, sums.yd, sums.dd))
    return without_rounding(yy - 2 * ratio * yd + ratio * ratio * dd, sums.n, yy + ratio * ratio * dd)
