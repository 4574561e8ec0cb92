"""The users of one variant, from their sums: mean, variance, and the confidence interval of the mean."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass

from scipy.special import ndtri, stdtrit

from experiments.stats.types import Interval, Kind, Reason, ReasonCode, Sums

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


def wilson(positive: float, n: int, alpha: float) -> Interval:
    """Return the 1 - alpha interval of a share, `positive` of `n` users (n >= 1), within 0 to 1.

    It is Wilson's score interval without continuity correction (Newcombe 1998, Statistics in Medicine
    17:857, method 3).
    """
    z = -float(ndtri(alpha / 2))
    share, squared = positive / n, z * z / n
    centre = (share + squared / 2) / (1 + squared)
    half = z / (1 + squared) * math.sqrt(share * (1 - share) / n + squared / (4 * n))
    # At 0 % and 100 % the formula gives exactly 0 and 1, except for rounding.
    lower = max(0.0, centre - half) if positive > 0 else 0.0
    upper = min(1.0, centre + half) if positive < n else 1.0
    return Interval(lower, upper)


def student(mean: float, standard_error: float, n: int, alpha: float) -> Interval:
    """Return the 1 - alpha interval of a mean of n >= 2 users by Student's t, in units of the mean."""
    half = float(stdtrit(n - 1, 1 - alpha / 2)) * standard_error
    return Interval(mean - half, mean + half)
