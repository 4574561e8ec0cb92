"""Finding the ends of an interval. SciPy's own search for roots would cost memory that no worker needs."""

from __future__ import annotations

import math
from collections.abc import Callable

_MAX_STEPS = 100
_NEAR = 1e-3
"""So many steps from the limit, the limit itself is the next one."""
_PRECISION = 1e-7
"""The last step is at most this share of the first one. The error is far smaller, because steps shrink ever faster."""


def find_bound(
    half_width: Callable[[float], float], estimate: float, step: float, limit: float, *, most: float = 1.0
) -> float:
    """Return the end of the interval of all x with |x - estimate| <= half_width(x), on the side of the limit.

    That is the first such x from the estimate on, or the limit if there is none before it. `step` is the half-width at
    the estimate, or the first step to try where that is 0. Each step is twice as long as the one before, but not longer
    than the share `most` of the way to the limit. Shorter steps are for half-widths that change fast near the limit.
    """
    inside, excess_inside, length = estimate, -step, math.copysign(step, limit - estimate)
    if not 0 < step < math.inf:
        return estimate + length
    while inside != limit:
        way = limit - inside
        longest = way if abs(way) <= _NEAR * step else most * way
        outside = inside + length
        if abs(length) >= abs(longest):
            outside = limit if longest == way else inside + longest
        excess = abs(outside - estimate) - half_width(outside)
        if excess > 0:
            return _find_root(half_width, estimate, (inside, outside), (excess_inside, excess), _PRECISION * step)
        inside, excess_inside, length = outside, excess, 2 * length
    return limit


def _find_root(
    half_width: Callable[[float], float],
    estimate: float,
    ends: tuple[float, float],
    values: tuple[float, float],
    precision: float,
) -> float:
    """Return where the half-width is the distance from the estimate, between an end inside and one outside.

    It is the method of false position, which halves the value of an end that stays (Illinois algorithm).
    Source: Dowell & Jarratt 1971, BIT 11:168.
    """
    (inside, outside), (at_inside, at_outside) = ends, values
    last, stays = outside, 0
    for _ in range(_MAX_STEPS):
        middle = outside - at_outside * (outside - inside) / (at_outside - at_inside)
        if abs(middle - last) <= precision or middle in (inside, outside):
            return middle
        last, excess = middle, abs(middle - estimate) - half_width(middle)
        if excess > 0:
            outside, at_outside, at_inside = middle, excess, at_inside / 2 if stays == 1 else at_inside
            stays = 1
        else:
            inside, at_inside, at_outside = middle, excess, at_outside / 2 if stays == -1 else at_outside
            stays = -1
    return last
