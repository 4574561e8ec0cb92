"""Confidence intervals of a variant's own value. Servers load SciPy, and so this module, only to read results."""

from __future__ import annotations

import math
from functools import lru_cache

from scipy.special import ndtri, stdtrit

from experiments.stats.types import Interval

# Most variants of an analysis have the same numbers of users and the same alpha.


@lru_cache(maxsize=1024)
def _normal_quantile(alpha: float) -> float:
    return -float(ndtri(alpha / 2))


@lru_cache(maxsize=1024)
def _student_quantile(freedom: float, alpha: float) -> float:
    return float(stdtrit(freedom, 1 - alpha / 2))


def wilson(positive: float, n: int, alpha: float) -> Interval:
    """Return the 1 - alpha interval of a share, `positive` of `n` users (n >= 1), within 0 to 1.

    It is Wilson's score interval without continuity correction (Newcombe 1998, Statistics in Medicine
    17:857, method 3).
    """
    z = _normal_quantile(alpha)
    share, squared = positive / n, z * z / n
    centre = (share + squared / 2) / (1 + squared)
    half = z / (1 + squared) * math.sqrt(share * (1 - share) / n + squared / (4 * n))
    # At 0 % and 100 % the formula gives exactly 0 and 1, except for rounding.
    lower = max(0.0, centre - half) if positive > 0 else 0.0
    upper = min(1.0, centre + half) if positive < n else 1.0
    return Interval(lower, upper)


def student(mean: float, standard_error: float, freedom: float, alpha: float) -> Interval:
    """Return the 1 - alpha interval of a mean by Student's t, in units of the mean."""
    half = _student_quantile(freedom, alpha) * standard_error
    return Interval(mean - half, mean + half)


def normal_share(share: float, standard_error: float, alpha: float) -> Interval:
    """Return the 1 - alpha interval of a share that is not a plain count of users, cut at 0 and 1.

    An adjusted estimate may lie outside of 0 to 1. The interval then reaches up to it.
    """
    half = _normal_quantile(alpha) * standard_error
    return Interval(min(share, max(0.0, share - half)), max(share, min(1.0, share + half)))
