"""Finding the end of an interval. SciPy's own search for roots would cost memory that no worker needs."""

from __future__ import annotations

import math
from collections.abc import Callable

_MAX_STEPS = 150
_PRECISION = 1e-12


def find_bound(
    excess: Callable[[float], float], estimate: float, step: float, limit: float, *, growth: float = 2.0
) -> float:
    """Return the first candidate from the estimate on at which the excess rises above 0, or the limit without one.

    The first step has this size, and each one is `growth` times as long as the one before. The excess may be infinite.
    """
    inside, at_inside, length = estimate, excess(estimate), math.copysign(step, limit - estimate)
    while inside != limit:
        outside = inside + length
        if (limit - outside) * length <= 0:
            outside = limit
        at_outside = excess(outside)
        if at_outside > 0:
            return _find_root(excess, (inside, outside), (at_inside, at_outside))
        inside, at_inside, length = outside, at_outside, growth * length
    return limit


def _find_root(excess: Callable[[float], float], ends: tuple[float, float], values: tuple[float, float]) -> float:
    """Return where the excess is 0 by false position, halving the value of an end that stays (Illinois algorithm).

    Every third step halves the interval, because false position is slow where the excess jumps. Source: Dowell &
    Jarratt 1971, BIT 11:168.
    """
    (inside, outside), (at_inside, at_outside) = ends, values
    stays = 0
    for step in range(_MAX_STEPS):
        middle = (inside + outside) / 2
        if math.isfinite(at_outside) and step % 3 < 2:
            middle = outside - at_outside * (outside - inside) / (at_outside - at_inside)
        if abs(outside - inside) <= _PRECISION * abs(middle) or middle in (inside, outside):
            return middle
        at_middle = excess(middle)
        if at_middle > 0:
            outside, at_outside, at_inside = middle, at_middle, at_inside / 2 if stays == 1 else at_inside
            stays = 1
        else:
            inside, at_inside, at_outside = middle, at_middle, at_outside / 2 if stays == -1 else at_outside
            stays = -1
    return inside
