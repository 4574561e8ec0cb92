"""The test for a single look at a moment chosen beforehand: Welch's t. Who looks every day errs far more often."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from experiments.stats.types import Test

Numbers = TypeVar("Numbers", float, NDArray[np.float64])


def degrees_of_freedom(treatment: Numbers, control: Numbers, n_treatment: Numbers, n_control: Numbers) -> Numbers:
    """Satterthwaite's, from the squared standard errors of two means (not both 0) and their numbers of users (>= 2).

    Numbers or NumPy arrays of them, as everywhere here (Welch 1947, Biometrika 34:28).
    """
    share = treatment / (treatment + control)  # first, as squares of squares would leave the range of floats
    return 1 / (share * share / (n_treatment - 1) + (1 - share) * (1 - share) / (n_control - 1))


def half_width(standard_error: Numbers, freedom: Numbers, alpha: float) -> Numbers:
    """Half the width of the two-sided 1 - alpha interval, in units of the standard error."""
    width: Numbers = stdtrit(freedom, 1 - alpha / 2) * standard_error
    return width


def p_value(z: Numbers, freedom: Numbers) -> Numbers:
    """The two-sided p-value of an estimate that is `z` standard errors from 0."""
    p: Numbers = 2 * stdtr(freedom, -np.abs(z))
    return p


def welch(estimate: float, standard_error: float, freedom: float, alpha: float) -> Test:
    """Interval and p-value of one estimate; its standard error is above 0."""
    half = float(half_width(standard_error, freedom, alpha))
    return Test(estimate - half, estimate + half, float(p_value(estimate / standard_error, freedom)))
