"""Intervals of a lift by Fieller's theorem, from the same test as the interval of the difference.

Every lift is tested by the difference that it implies: λ is in the interval where
(d - λ |m_c|)² <= c² (v_t + (1 + λ)² v_c + λ² s), for the difference d of the means, the control's mean
m_c, their squared errors v, and the half-width c of the interval in standard errors. The lift 0 gives
the test of the difference itself, so the two intervals never contradict each other. Where the control's
mean is below 0, an increase stays positive: the lift is 1 minus the quotient of the means, and the
formula has 1 - λ in place of 1 + λ. s is the squared error that all variants share (see `cuped`).
Source: Fieller 1954, "Some Problems in Interval Estimation", JRSS B 16:175.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

Bounds = tuple[float | None, float | None]
LOWEST = -1.0
"""The lowest lift of a quantity that cannot be negative."""


@dataclass(frozen=True, slots=True)
class Quotient:
    """Two means in units of the control's: the difference, and the standard errors.

    `sign` is that of the control's mean.
    """

    difference: float
    sign: float
    treatment_error: float
    control_error: float
    shared_error: float


def bounds(quotient: Quotient, width: float, *, is_non_negative: bool) -> Bounds | None:
    """Return the ends of the interval of the lift, where None is an open side.

    `width` is the half-width of the interval in standard errors. The answer is None where the numbers
    are too large to compute with.
    """
    d, sign = quotient.difference, quotient.sign
    treatment, control, shared = (
        width * quotient.treatment_error,
        width * quotient.control_error,
        width * quotient.shared_error,
    )
    treatment, control, shared = treatment * treatment, control * control, shared * shared  # ** raises on overflow
    a = 1 - control - shared
    b = d + sign * control
    half = math.sqrt(treatment + control)
    c = (d - half) * (d + half)
    discriminant = control * (1 + sign * d) * (1 + sign * d) + treatment * a + shared * (d * d - control)
    if not all(map(math.isfinite, (a, b, c, discriminant))):
        return None
    is_cut = is_non_negative and sign > 0
    if a <= 0:
        return _open_bounds(_roots(a, b, c, discriminant), d, is_zero_excluded=c > 0) if is_cut else (None, None)
    lower, upper = _roots(a, b, c, max(discriminant, 0.0)) or (d, d)
    return _finite(max(lower, LOWEST), max(upper, LOWEST)) if is_cut else _finite(lower, upper)


def _finite(lower: float, upper: float) -> Bounds:
    return lower if math.isfinite(lower) else None, upper if math.isfinite(upper) else None


def _roots(a: float, b: float, c: float, discriminant: float) -> tuple[float, float] | None:
    """Return the solutions of a λ² - 2 b λ + c = 0 in ascending order; None where there are none.

    Each is computed without a difference of like numbers, so that the sign of every root is right.
    """
    if discriminant < 0:
        return None
    half = b + math.copysign(math.sqrt(discriminant), b)
    if half == 0:
        return (0.0, 0.0) if a else None
    near = c / half
    far = half / a if a else math.copysign(math.inf, -half)  # as for an a that is barely below 0
    return (near, far) if near < far else (far, near)


def _open_bounds(roots: tuple[float, float] | None, difference: float, *, is_zero_excluded: bool) -> Bounds:
    """Return the ends of an interval that reaches to infinity, cut at the lowest lift.

    It is the part of the two rays outside the roots that is not below the lowest lift. Where both
    rays have such a part and 0 is in neither, the one on the side of the difference remains.
    """
    if roots is None or roots[1] <= LOWEST:
        return LOWEST, None
    if roots[0] < LOWEST or (is_zero_excluded and difference > 0):
        return (roots[1] if math.isfinite(roots[1]) else LOWEST), None
    return (LOWEST, roots[0]) if is_zero_excluded else (LOWEST, None)
