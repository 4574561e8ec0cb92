"""The input and the output of the correction for the winner's curse. It loads no NumPy."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

Z_95 = NormalDist().inv_cdf(0.975)
"""The quantile of the normal distribution at 97.5 %: half of a 95 % interval, in standard errors."""
MIN_EFFECTS = 3
"""With fewer finished experiments, nothing can be learned about the size of true effects."""


@dataclass(frozen=True, slots=True)
class MeasuredEffect:
    """A measured lift, such as 0.1 for 10 % more, and the standard error of ln(1 + lift)."""

    lift: float
    log_error: float


@dataclass(frozen=True, slots=True)
class Lift:
    """A lift with its 95 % interval."""

    estimate: float
    lower: float
    upper: float
