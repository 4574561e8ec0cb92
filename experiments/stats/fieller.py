"""Intervals of a lift by Fieller's theorem, from the same test as the interval of the difference.

Every ratio r of the means is tested by the treatment's mean minus r times the control's, whose variance is a quadratic
function of r. With the difference d of the means in units of the control's, λ = r - 1 is in the interval where
(d - λ)² <= c² V(r), for the half-width c of the interval in standard errors. The lift 0 gives the test of the
difference itself, so the two intervals never contradict each other. Where the control's mean is below 0, an increase
stays positive: the lift is 1 minus the quotient of the means, so that r is 1 - λ.
Source: Fieller 1954, "Some Problems in Interval Estimation", JRSS B 16:175.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

Bounds = tuple[float | None, float | None]
LOWEST = -1.0
"""The lowest lift of a quantity that cannot be negative."""


@dataclass(frozen=True, slots=True)
class Quadratic:
    """The variance of the treatment's mean minus r times the control's: `constant` - 2 `product` r + `square` r²."""

    constant: float
    product: float
    square: float

    def at(self, ratio: float) -> float:
        return self.constant - 2 * self.product * ratio + self.square * ratio * ratio


def add(variances: Sequence[Quadratic]) -> Quadratic:
    """Return the variance of a sum of independent means."""
    columns = zip(*((one.constant, one.product, one.square) for one in variances), strict=True)
    return Quadratic(*map(math.fsum, columns))


def bounds(
    difference: float, sign: float, variance: Quadratic, width: float, *, is_non_negative: bool
) -> Bounds | None:
    """Return the ends of the interval of the lift, where None is an open side.

    The difference of the means is in units of the control's mean, whose sign is `sign`, and the variance in units of
    its square. `width` is the half-width of the interval in standard errors. The answer is None where the numbers are
    too large to compute with.
    """
    d, squared = difference, width * width
    a = 1 - squared * variance.square
    b = d + sign * squared * (variance.square - variance.product)
    half = width * math.sqrt(max(variance.at(1.0), 0.0))
    c = (d - half) * (d + half)
    determinant = variance.constant * variance.square - variance.product * variance.product
    discriminant = squared * variance.at(1 + sign * d) - squared * squared * determinant
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
