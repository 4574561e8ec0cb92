"""Welch's t-test, which is valid for a single look at a moment that was chosen beforehand.

Looking every day makes its error rate much higher than alpha. All functions take numbers or NumPy
arrays of them, element by element.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

Numbers = TypeVar("Numbers", float, NDArray[np.float64])


def degrees_of_freedom(
    treatment: Numbers, control: Numbers, treatment_freedom: Numbers, control_freedom: Numbers
) -> Numbers:
    """Return the degrees of freedom by the Welch-Satterthwaite equation (Welch 1947, Biometrika 34:28).

    `treatment` and `control` are the squared standard errors of the two means, not both 0. The others
    are their own degrees of freedom: the number of users minus 1, where there is one stratum.
    """
    share = treatment / (treatment + control)  # divide first: squares of squares could overflow
    return 1 / (share * share / treatment_freedom + (1 - share) * (1 - share) / control_freedom)


def half_width(standard_error: Numbers, freedom: Numbers, alpha: float) -> Numbers:
    """Return half the width of the two-sided 1 - alpha interval, in the units of the standard error."""
    width: Numbers = stdtrit(freedom, 1 - alpha / 2) * standard_error
    return width


def p_value(z: Numbers, freedom: Numbers) -> Numbers:
    """Return the two-sided p-value of an estimate that is `z` standard errors from 0."""
    p: Numbers = 2 * stdtr(freedom, -abs(z))
    return p
