"""The effect of a treatment: the difference of two means and the relative lift, each with both tests."""

from __future__ import annotations

import math
import sys

from experiments.stats.fixed_horizon import degrees_of_freedom, welch
from experiments.stats.samples import OUT_OF_RANGE, Sample
from experiments.stats.sequential import always_valid
from experiments.stats.types import Design, Estimate, Reason, ReasonCode

ONE_USER = Reason(ReasonCode.TOO_FEW_USERS, "A comparison needs at least two users in both variants.")
NO_VARIANCE = Reason(
    ReasonCode.NO_VARIANCE, "All users have the same value, so the uncertainty of a difference cannot be estimated."
)
CONTROL_IS_ZERO = Reason(ReasonCode.CONTROL_IS_ZERO, "The control's value is 0, or too close to 0 to divide by.")


def difference(treatment: Sample, control: Sample, design: Design) -> Estimate | Reason:
    """Return the treatment's mean minus the control's, in units of the measure."""
    return _estimate(
        treatment.mean - control.mean, (treatment.squared_error, control.squared_error), treatment, control, design
    )


def lift(treatment: Sample, control: Sample, design: Design) -> Estimate | Reason:
    """Return the difference as a share of the control's mean: 0.1 is 10 % more.

    The divisor is the absolute value of the mean, so that an increase stays positive where the mean
    is negative. The standard error is by the delta method (Deng, Knoblich & Lu 2018):
    s² = v_t / (n_t m_c²) + v_c m_t² / (n_c m_c⁴). The test of the lift is not the test of the
    difference, and the two p-values differ.
    """
    if _is_zero(control):
        return CONTROL_IS_ZERO
    ratio, size = treatment.mean / control.mean, abs(control.mean)
    errors = (treatment.squared_error / size / size, control.squared_error / size * ratio / size * ratio)
    estimate = _estimate((treatment.mean - control.mean) / size, errors, treatment, control, design)
    return CONTROL_IS_ZERO if estimate is OUT_OF_RANGE else estimate


def _is_zero(sample: Sample) -> bool:
    """Return whether the mean is 0, or so small that rounding of its sum may account for it.

    Rounding may account for |Σy| up to n ε √(n Σy²). Such a small mean adds nothing to Σy², which is
    then n times the variance.
    """
    return abs(sample.mean) <= sample.n * sys.float_info.epsilon * math.sqrt(sample.variance)


def _estimate(
    estimate: float, squared_errors: tuple[float, float], treatment: Sample, control: Sample, design: Design
) -> Estimate | Reason:
    """Return an estimate with both tests, given the squared errors of the treatment and of the control.

    The two are independent, so the squared error of the estimate is their sum.
    """
    if min(treatment.n, control.n) < 2:
        return ONE_USER
    squared = sum(squared_errors)
    if squared == 0:
        return NO_VARIANCE
    if not math.isfinite(squared):
        return OUT_OF_RANGE
    error = math.sqrt(squared)
    freedom = degrees_of_freedom(*squared_errors, treatment.n, control.n)
    fixed = welch(estimate, error, float(freedom), design.alpha)
    users, tuning = treatment.n + control.n, design.tuning_size
    always = always_valid(estimate, error, users, tuning_size=tuning, alpha=design.alpha)
    bounds = (fixed.lower, fixed.upper, always.lower, always.upper)
    return Estimate(estimate, error, always, fixed) if all(map(math.isfinite, bounds)) else OUT_OF_RANGE
