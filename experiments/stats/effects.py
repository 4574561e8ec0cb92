"""The effect of a treatment: the difference of two means and the relative lift, both from the same tests."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from experiments.stats import fieller, fixed_horizon, sequential
from experiments.stats.boundaries import Boundary, Mixture
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

    `shared` is a squared error that both means share (see `cuped.AdjustedStratum`). `boundary` is that of the
    always-valid test. The p-values are not adjusted for other tests. `kept` is the comparison at the planned size, once
    it is in the past (see `with_kept`), and `is_contradicted` says that its interval has nothing in common with
    today's.
    """

    pair: Pair
    treatment: Sample
    control: Sample
    shared: float
    difference: float
    error: float
    freedom: float
    boundary: Boundary
    always_valid_p: float
    fixed_horizon_p: float
    kept: Contrast | None = None
    is_contradicted: bool = False

    @property
    def users(self) -> int:
        return self.treatment.n + self.control.n


@dataclass(frozen=True, slots=True)
class Level:
    """The alpha and p-value of a test, and the half-width of its interval in standard errors.

    `kept_width` is the half-width at the planned size, once it is in the past.
    """

    alpha: float
    p_value: float
    width: float
    kept_width: float | None = None


@dataclass(frozen=True, slots=True)
class Levels:
    """The levels of the two tests of a row of the results."""

    always_valid: Level
    fixed_horizon: Level


def contrast(
    pair: Pair,
    treatment: Sample,
    control: Sample,
    design: Design,
    shared: float = 0.0,
    boundary: Boundary | None = None,
) -> Contrast | Reason:
    """Compare two variants. Return a reason if the comparison cannot be tested.

    Without a `boundary`, that of the mixture with the whole alpha holds.
    """
    squared = treatment.squared_error + control.squared_error
    amount = treatment.mean - control.mean
    if not math.isfinite(squared) or not math.isfinite(amount):
        return OUT_OF_RANGE
    is_share = isinstance(pair, Shares)
    if squared == 0 and not is_share:
        return NO_VARIANCE
    z = pair.z_of_difference(0.0)
    boundary = boundary or Mixture(treatment.n + control.n, design.tuning_size, design.alpha)
    freedom = math.inf
    if squared and not is_share:
        freedom = fixed_horizon.degrees_of_freedom(
            treatment.squared_error, control.squared_error, treatment.freedom, control.freedom
        )
    return Contrast(
        pair,
        treatment,
        control,
        shared,
        amount,
        math.sqrt(squared),
        float(freedom),
        boundary,
        boundary.p_value(z),
        float(fixed_horizon.p_value(z, freedom)),
    )


def with_kept(today: Contrast, kept: Contrast, alpha: float) -> Contrast:
    """Return today's comparison together with the one at the planned size, which has its own part of alpha.

    There is a difference if either of them finds one, and the interval is what both contain. If they have nothing in
    common, users or values have changed since, and the kept one alone holds. Intervals at smaller alphas are wider, so
    whether they do is decided at the alpha of a single test.
    """
    lower, upper = zip(
        *(one.pair.bounds_of_difference(one.boundary.width(alpha)) for one in (today, kept)), strict=True
    )
    if max(lower) > min(upper):
        return replace(today, kept=kept, is_contradicted=True, always_valid_p=kept.always_valid_p)
    return replace(today, kept=kept, always_valid_p=min(today.always_valid_p, kept.always_valid_p))


def always_valid_level(compared: Contrast, design: Design, corrected: tuple[float, float] | None = None) -> Level:
    """Return the level of the always-valid test. `corrected` are its alpha and adjusted p-value."""
    alpha, p = corrected or (design.alpha, compared.always_valid_p)
    kept_width = compared.kept.boundary.width(alpha) if compared.kept else None
    return Level(alpha, p, compared.boundary.width(alpha), kept_width)


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
    if compared.kept is None or _is_of_today(compared, levels.always_valid, always_valid):
        return Estimate(compared.difference, compared.error, always_valid, fixed)
    return Estimate(compared.kept.difference, compared.kept.error, always_valid, fixed, compared.difference)


def _is_of_today(compared: Contrast, level: Level, combined: Test) -> bool:
    """Return whether the interval is that of today, not of the kept reading: it is narrower, or has its estimate."""
    assert compared.kept is not None  # noqa: S101 (the caller knows)
    if compared.is_contradicted:
        return False
    if (combined.lower, combined.upper) == compared.pair.bounds_of_difference(level.width):
        return True
    return _contains(combined, compared.difference) and not _contains(combined, compared.kept.difference)


def _contains(test: Test, value: float) -> bool:
    return (test.lower is None or test.lower <= value) and (test.upper is None or value <= test.upper)


def lift(compared: Contrast, levels: Levels, of_difference: Estimate, *, is_non_negative: bool) -> Estimate | Reason:
    """Return the difference as a share of the control's mean: 0.1 is 10 % more.

    The divisor is the absolute value of the mean, so that an increase stays positive if the mean is negative.
    """
    readings = [compared, compared.kept] if compared.kept else [compared]
    if any(_is_zero(one.control) or (is_non_negative and one.control.mean < 0) for one in readings):
        return CONTROL_IS_ZERO
    always_valid = _test_of_lift(compared, levels.always_valid, of_difference.always_valid)
    fixed = _test_of_lift(compared, levels.fixed_horizon, of_difference.fixed_horizon)
    if isinstance(always_valid, Reason) or isinstance(fixed, Reason):
        return CONTROL_IS_ZERO
    today = _lift_of(compared, is_non_negative=is_non_negative)
    if compared.kept is None or of_difference.today is None:
        return Estimate(today, None, always_valid, fixed)
    return Estimate(_lift_of(compared.kept, is_non_negative=is_non_negative), None, always_valid, fixed, today)


def _lift_of(compared: Contrast, *, is_non_negative: bool) -> float:
    estimate = compared.difference / abs(compared.control.mean)
    return max(estimate, fieller.LOWEST) if is_non_negative else estimate


def _tests(compared: Contrast, level: Level) -> Sequence[tuple[Pair, float]]:
    """Return the pairs and half-widths whose intervals hold together, the kept one first."""
    today = compared.pair, level.width
    if compared.kept is None or level.kept_width is None:
        return [today]
    kept = compared.kept.pair, level.kept_width
    return [kept] if compared.is_contradicted else [kept, today]


def _test_of_difference(compared: Contrast, level: Level) -> Test | Reason:
    lower, upper = zip(*(pair.bounds_of_difference(width) for pair, width in _tests(compared, level)), strict=True)
    if not all(map(math.isfinite, (*lower, *upper))):
        return OUT_OF_RANGE
    return Test(max(lower), min(upper), level.p_value, 1 - level.alpha)


def _test_of_lift(compared: Contrast, level: Level, of_difference: Test) -> Test | Reason:
    bounds = None
    for pair, width in _tests(compared, level):
        more = pair.bounds_of_lift(width)
        if more is None:
            return CONTROL_IS_ZERO
        bounds = more if bounds is None else _in_both(bounds, more)
    assert bounds is not None  # noqa: S101 (there is a pair)
    lower, upper = _in_agreement(bounds, of_difference.sign)
    is_open = lower is None or upper is None
    return Test(lower, upper, level.p_value, 1 - level.alpha, OPEN if is_open else None)


def _in_both(first: Bounds, second: Bounds) -> Bounds:
    """Return what two intervals have in common; the first one where that is nothing."""
    lower = max((bound for bound in (first[0], second[0]) if bound is not None), default=None)
    upper = min((bound for bound in (first[1], second[1]) if bound is not None), default=None)
    is_empty = lower is not None and upper is not None and lower > upper
    return first if is_empty else (lower, upper)


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
