"""The always-valid test: an asymptotic confidence sequence for a difference between two variants.

It is valid at every look. Source: Waudby-Smith, Arbour, Sinha, Kennedy & Ramdas 2021, "Time-uniform
central limit theory and asymptotic confidence sequences" (arXiv 2103.06476), theorem 2.2, for the
users of both variants together: N = n_treatment + n_control. All functions take numbers or NumPy
arrays of them, element by element.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Numbers = TypeVar("Numbers", float, NDArray[np.float64])


@lru_cache(maxsize=256)
def mixture_variance(tuning_size: float, alpha: float) -> float:
    """Return ρ² of the mixture, with which the sequence is narrowest around N = `tuning_size` users."""
    spread = -2 * math.log(alpha)
    return (spread + math.log(spread + 1)) / tuning_size


def half_width(
    standard_error: Numbers, users: Numbers, *, tuning_size: float, alpha: float, comparisons: float = 1
) -> Numbers:
    """Return half the width of the 1 - alpha interval, in the units of the standard error.

    `users` is the number of both variants together. Where several `comparisons` share alpha
    (Bonferroni), the answer is for each of them; they are tuned as a single one is.
    """
    information = users * mixture_variance(tuning_size, alpha)
    width: Numbers = standard_error * np.sqrt(
        2 * (information + 1) / information * (np.log1p(information) / 2 - math.log(alpha / comparisons))
    )
    return width


def p_value(z: Numbers, users: Numbers, *, tuning_size: float, alpha: float) -> Numbers:
    """Return the p-value of an estimate that is `z` standard errors from 0.

    It is below alpha exactly where the interval excludes 0. Here `alpha` only tunes the sequence; the
    p-value is valid for every level.
    """
    exponent = -log_e_value(z, users, tuning_size=tuning_size, alpha=alpha)
    p: Numbers = math.exp(min(0.0, exponent)) if isinstance(exponent, float) else np.exp(np.minimum(0.0, exponent))
    return p


def log_e_value(z: Numbers, users: Numbers, *, tuning_size: float, alpha: float) -> Numbers:
    """Return the logarithm of the e-value of an estimate that is `z` standard errors from 0.

    The e-value is that of the mixture. Without a difference, its mean is at most 1 at every time at which an experiment
    is stopped or read. The p-value is its inverse, or 1.
    """
    find_terms = _terms_of_number if isinstance(users, int) else _terms
    log, share = find_terms(users, tuning_size, alpha)
    return share * z * z - log


def _terms(users: Numbers, tuning_size: float, alpha: float) -> tuple[Numbers, Numbers]:
    """Return the two terms of the logarithm of an e-value: the one without z², negative, and the factor of z²."""
    information = users * mixture_variance(tuning_size, alpha)
    return np.log1p(information) / 2, information / (information + 1) / 2


@lru_cache(maxsize=1024)  # most metrics of an analysis count the same users
def _terms_of_number(users: int, tuning_size: float, alpha: float) -> tuple[float, float]:
    log, share = _terms(float(users), tuning_size, alpha)
    return float(log), float(share)
