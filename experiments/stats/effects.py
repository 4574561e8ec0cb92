"""The effect of a treatment: the difference of two means and the relative lift, both from the same tests."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from experiments.stats import fieller, fixed_horizon, sequential
from experiments.stats.fieller import Bounds
from experiments.stats.samples import OUT_OF_RANGE, Sample
from experiments.stats.shares import Shares
from experiments.stats.types import Design, Estimate, Reason, ReasonCode, Test

ONE_USER = Reason(ReasonCode.TOO_FEW_USERS, "A comparison needs at least two users who count in each variant.")
NO_VARIANCE = Reason(
    ReasonCode.NO_VARIANCE, "All users have the same value, so the uncertainty of a difference cannot be estimated."
)
CONTROL_IS_ZERO = Reason(ReasonCode.CONTROL_IS_ZERO, "The control's value is 0, or too close to 0 to divide by.")
OPEN = Reason(
    ReasonCode.OPEN_INTERVAL,
    "The control's value may be 0, so the lift has no bound on this side. The difference has both.",
)


class Pair(Protocol):
    """Two variants, and the test of what their difference and their ratio may be."""

    @property
    def treatment(self) -> float:
        """Return the value of the treatment, in units of the measure."""
        ...

    @property
    def control(self) -> float: ...

    def z_of_difference(self, difference: float) -> float:
        """Return how many standard errors the estimate is above a difference."""
        ...

    def z_of_ratio(self, ratio: float) -> float:
        """Return how many standard errors the estimate is above a ratio of the values."""
        ...

    def alike(self, factor: float) -> Pair:
        """Return the test of so many times the users, without a difference."""
        ...

    def bounds_of_difference(self, width: float) -> tuple[float, float]:
        """Return the interval of the differences that are at most `width` standard errors away."""
        ...

    def bounds_of_lift(self, width: float) -> Bounds | None:
        """Return the same of the lift, as `fieller.bounds` does."""
        ...


@dataclass(frozen=True, slots=True)
class Contrast:
    """Two variants, the difference of their means in units of the measure, and its standard error by Welch.

    `shared` is a squared error that both means share (see `cuped.AdjustedStratum`). `z` is the difference in standard
    errors of the test. The p-values are not adjusted for other tests.
    """

    pair: Pair
    treatment: Sample
    control: Sample
    shared: float
    difference: float
    error: float
    freedom: float
    always_valid_p: float
    fixed_horizon_p: float

    @property
    def users(self) -> int:
        return self.treatment.n + self.control.n


@dataclass(frozen=True, slots=True)
class Level:
    """The alpha and p-value of a test, and the half-width of its interval in standard errors."""

    alpha: float
    p_value: float
    width: float


@dataclass(frozen=True, slots=True)
class Levels:
    """The levels of the two tests of a row of the results."""

    always_valid: Level
    fixed_horizon: Level


def contrast(pair: Pair, treatment: Sample, control: Sample, design: Design, shared: float = 0.0) -> Contrast | Reason:
    """Compare two variants. Return a reason if the comparison cannot be tested."""
    squared = treatment.squared_error + control.squared_error
    amount = treatment.mean - control.mean
    if not math.isfinite(squared) or not math.isfinite(amount):
        return OUT_OF_RANGE
    is_share = isinstance(pair, Shares)
    if squared == 0 and not is_share:
        return NO_VARIANCE
    z, users = pair.z_of_difference(0.0), treatment.n + control.n
    freedom = math.inf
    if squared and not is_share:
        freedom = fixed_horizon.degrees_of_freedom(
            treatment.squared_error, control.squared_error, treatment.freedom, control.freedom
        )
    always_valid_p = sequential.p_value(z, users, tuning_size=design.tuning_size, alpha=design.alpha)
    fixed_horizon_p = fixed_horizon.p_value(z, freedom)
    return Contrast(
        pair,
        treatment,
        control,
        shared,
        amount,
        math.sqrt(squared),
        float(freedom),
        float(always_valid_p),
        float(fixed_horizon_p),
    )


def always_valid_level(compared: Contrast, design: Design, corrected: tuple[float, float] | None = None) -> Level:
    """Return the level of the always-valid test. `corrected` are its alpha and adjusted p-value."""
    alpha, p = corrected or (design.alpha, compared.always_valid_p)
    return Level(alpha, p, _always_valid_width(compared.users, design.tuning_size, design.alpha, alpha))


@lru_cache(maxsize=1024)  # most metrics of an analysis count the same users
def _always_valid_width(users: int, tuning_size: float, tuning_alpha: float, alpha: float) -> float:
    tuning = {"tuning_size": tuning_size, "alpha": tuning_alpha}
    return float(sequential.half_width(1.0, users, **tuning, comparisons=tuning_alpha / alpha))


def fixed_horizon_level(compared: Contrast, design: Design, corrected: tuple[float, float] | None = None) -> Level:
    """Return the level of the fixed-horizon test. `corrected` are its alpha and adjusted p-value."""
    alpha, p = corrected or (design.alpha, compared.fixed_horizon_p)
    return Level(alpha, p, float(fixed_horizon.half_width(1.0, compared.freedom, alpha)))


def log_e_value(compared: Contrast, design: Design) -> float:
    """Return the logarithm of the e-value of the always-valid mixture."""
    z = compared.pair.z_of_difference(0.0)
    return float(sequential.log_e_value(z, compared.users, tuning_size=design.tuning_size, alpha=design.alpha))


def uncorrected(compared: Contrast, design: Design) -> Levels:
    return Levels(always_valid_level(compared, design), fixed_horizon_level(compared, design))


def difference(compared: Contrast, levels: Levels) -> Estimate | Reason:
    """Return the treatment's mean minus the control's, in units of the measure."""
    always_valid = _test_of_difference(compared, levels.always_valid)
    fixed = _test_of_difference(compared, levels.fixed_horizon)
    if isinstance(always_valid, Reason) or isinstance(fixed, Reason):
        return OUT_OF_RANGE
    return Estimate(compared.difference, compared.error, always_valid, fixed)


def lift(compared: Contrast, levels: Levels, of_difference: Estimate, *, is_non_negative: bool) -> Estimate | Reason:
    """Return the difference as a share of the control's mean: 0.1 is 10 % more.

    The divisor is the absolute value of the mean, so that an increase stays positive if the mean is negative.
    """
    mean, size = compared.control.mean, abs(compared.control.mean)
    if _is_zero(compared.control) or (is_non_negative and mean < 0):
        return CONTROL_IS_ZERO
    always_valid = _test_of_lift(compared.pair, levels.always_valid, of_difference.always_valid)
    fixed = _test_of_lift(compared.pair, levels.fixed_horizon, of_difference.fixed_horizon)
    if isinstance(always_valid, Reason) or isinstance(fixed, Reason):
        return CONTROL_IS_ZERO
    estimate = compared.difference / size
    return Estimate(max(estimate, fieller.LOWEST) if is_non_negative else estimate, None, always_valid, fixed)


def _test_of_difference(compared: Contrast, level: Level) -> Test | Reason:
    lower, upper = compared.pair.bounds_of_difference(level.width)
    if not math.isfinite(lower) or not math.isfinite(upper):
        return OUT_OF_RANGE
    return Test(lower, upper, level.p_value, 1 - level.alpha)


def _test_of_lift(pair: Pair, level: Level, of_difference: Test) -> Test | Reason:
    bounds = pair.bounds_of_lift(level.width)
    if bounds is None:
        return CONTROL_IS_ZERO
    lower, upper = _in_agreement(bounds, of_difference.sign)
    is_open = lower is None or upper is None
    return Test(lower, upper, level.p_value, 1 - level.alpha, OPEN if is_open else None)


def _in_agreement(bounds: fieller.Bounds, sign: int) -> fieller.Bounds:
    """Move bounds that rounding put across 0 to the side of the difference."""
    lower, upper = bounds
    if sign > 0 and lower is not None:
        lower = max(lower, sys.float_info.min)
    elif sign < 0 and upper is not None:
        upper = min(upper, -sys.float_info.min)
    elif sign == 0:
        lower, upper = lower and min(lower, 0.0), upper and max(upper, 0.0)
    return lower, upper


def _is_zero(sample: Sample) -> bool:
    """Return whether the mean is 0, or so small that rounding of its sum may account for it.

    Rounding may account for |Σy| up to n ε √(n Σy²). Such a small mean adds nothing to Σy², which is then n times the
    variance.
    """
    return abs(sample.mean) <= sample.n * sys.float_info.epsilon * math.sqrt(sample.variance)
