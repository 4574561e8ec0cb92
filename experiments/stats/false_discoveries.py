"""Which winners of many experiments hold together: the e-BH procedure, which bounds the false discovery rate.

An e-value is a number of at least 0 whose mean is at most 1 if there is nothing to find. That of an experiment may be
read at any time, such as at its stop or now, and experiments may depend on each other. Source: Wang & Ramdas 2022,
"False discovery rate control with e-values", JRSS B 84:822. The logarithms cannot overflow. It loads no NumPy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

RATE = 0.05
"""The false discovery rate: the mean share of false winners among those that hold."""


def min_log_e_value(log_e_values: Sequence[float], experiments: int, rate: float = RATE) -> float:
    """Return the logarithm of the smallest e-value that holds; infinity if none does.

    The k-th largest of K e-values holds, and so do those above it, if it is at least K / (rate k). `experiments` is K;
    those without one of the `log_e_values` have the e-value 0.
    """
    ordered = sorted(log_e_values, reverse=True)
    limits = (math.log(experiments / (rate * number)) for number in range(1, len(ordered) + 1))
    return min((limit for value, limit in zip(ordered, limits, strict=True) if value >= limit), default=math.inf)
