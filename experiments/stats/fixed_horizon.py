"""Welch's t-test, which is valid for a single look at a moment that was chosen beforehand.

Looking every day makes its error rate much higher than alpha. All functions take numbers or NumPy
arrays of them, element by element.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from experiments.stats.types import Test

Numbers = TypeVar("Numbers", float, NDArray[np.float64])


def degrees_of_freedom(treatment: Numbers, control: Numbers, n_treatment: Numbers, n_control: Numbers) -> Numbers:
    """Return the degrees of freedom by the Welch-Satterthwaite equation (Welch 1947, Biometrika 34:28).

    `treatment` and `control` are the squared standard errors of the two means, not both 0.
    `n_treatment` and `n_control` are the numbers of users, 2 or more.
    """
    share = treatment / (treatment + control)  # divide first: squares of squares could overflow
    return 1 / (share * share / (n_treatment - 1) + (1 - share) * (1 - share) / (n_control - 1))


def half_width(standard_error: Numbers, freedom: Numbers, alpha: float) -> Numbers:
    """Return half the width of the two-sided 1 - alpha interval, in the units of the standard error."""
    width: Numbers = stdtrit(freedom, 1 - alpha / 2) * standard_error
    return width


def p_value(z: Numbers, freedom: Numbers) -> Numbers:
    """Return the two-sided p-value of an estimate that is `z` standard errors from 0."""
    p: Numbers = 2 * stdtr(freedom, -np.abs(z))
    return p


def welch(estimate: float, standard_error: float, freedom: float, alpha: float) -> Test:
    """Return the interval and the p-value of one estimate, whose standard error is above 0."""
    half = float(half_width(standard_error, freedom, alpha))
    return Test(estimate - half, estimate + half, float(p_value(estimate / standard_error, freedom)))
