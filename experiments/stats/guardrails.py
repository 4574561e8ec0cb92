"""Guardrails: whether a treatment is shown to be no worse than the control by more than a margin."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from experiments.stats import sequential
from experiments.stats.effects import Contrast
from experiments.stats.samples import Sample
from experiments.stats.types import (
    Comparison,
    Design,
    Estimate,
    Guardrail,
    GuardrailStatus,
    Margin,
    Measure,
    Reason,
    ReasonCode,
)

DEFAULT_MARGIN = Margin(relative=0.1)
# Two values without variance are equal if they differ, relative to the larger one, by less than this:
# their sums may have been rounded differently.
ROUNDING = 1e-9
MAX_USERS = 10**15
MIN_USERS = 100
"""With fewer users in a variant, nothing is shown: neither by a test nor by values that are all the same."""


@dataclass(frozen=True, slots=True)
class GuardrailSides:
    """Both variants of a comparison.

    `is_silent` says that neither has an event of the measure. `users` are the users who count in each.
    """

    treatment: Sample | Reason
    control: Sample | Reason
    contrast: Contrast | Reason
    is_silent: bool
    users: tuple[int, int]


def judge(measure: Measure, sides: GuardrailSides, comparison: Comparison, design: Design) -> Guardrail:
    """Return what is known of a guardrail, by the test that decides its row."""
    margin = _both_forms(measure.margin or DEFAULT_MARGIN, sides.control)
    if isinstance(comparison.difference, Reason):
        status = _without_test(measure, margin, sides, comparison.difference)
        missing = sum(max(MIN_USERS - users, 0) for users in sides.users)
        # Values that are all the same say little of a few users, such as the first who are mature.
        return (
            Guardrail("undecided", margin, missing) if status != "undecided" and missing else Guardrail(status, margin)
        )
    if _is_safe(measure, comparison, comparison.difference):
        return Guardrail("safe", margin)
    if comparison.label == "worse":
        return Guardrail("harmed", margin)
    users_needed = (
        None if isinstance(sides.contrast, Reason) else _users_needed(measure, sides.contrast, comparison, design)
    )
    return Guardrail("undecided", margin, users_needed)


def gain(measure: Measure, amount: float) -> float:
    """Return a difference so that above 0 is good."""
    return -amount if measure.is_decrease_good else amount


def certain_change(sides: GuardrailSides, cause: Reason) -> float | None:
    """Return the difference from the control if all users of a variant have the same value.

    Return None if the difference is missing for another `cause`.
    """
    treatment, control = sides.treatment, sides.control
    if cause.code != ReasonCode.NO_VARIANCE or isinstance(treatment, Reason) or isinstance(control, Reason):
        return None
    if treatment.unknown or control.unknown:
        return None
    is_equal = math.isclose(treatment.mean, control.mean, rel_tol=ROUNDING)
    return 0.0 if is_equal else treatment.mean - control.mean


def _both_forms(margin: Margin, control: Sample | Reason) -> Margin:
    """Return the margin in both forms, if the control's value is known."""
    if isinstance(control, Reason):
        return margin
    size = abs(control.mean)
    if margin.relative is not None:
        return Margin(margin.relative, _if_finite(margin.relative * size))
    if margin.absolute is not None and size:
        return Margin(_if_finite(margin.absolute / size), margin.absolute)
    return margin


def _if_finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


def _without_test(measure: Measure, margin: Margin, sides: GuardrailSides, cause: Reason) -> GuardrailStatus:
    if sides.is_silent:
        return "silent"
    change = certain_change(sides, cause)
    if change is None:
        return "undecided"
    return "safe" if gain(measure, change) >= -(margin.absolute or 0.0) else "harmed"


def _is_safe(measure: Measure, comparison: Comparison, difference: Estimate) -> bool:
    """Return whether the whole interval is better than the margin: of the lift, or of the difference."""
    if comparison.label == "better":
        return True
    margin = measure.margin or DEFAULT_MARGIN
    estimate = comparison.lift if margin.relative is not None else difference
    limit = margin.relative if margin.relative is not None else margin.absolute
    if isinstance(estimate, Reason) or limit is None:
        return False
    test = comparison.deciding(estimate)
    worst = test.upper if measure.is_decrease_good else test.lower
    return worst is not None and gain(measure, worst) >= -limit


def _users_needed(measure: Measure, compared: Contrast, comparison: Comparison, design: Design) -> int | None:
    """Return the further users after which the guardrail would be safe if there were no difference.

    Without a difference, both variants have the mean and the variance of all their users. The half-width of the
    interval is inverted for the distance to the margin.
    """
    treatment, control, users = compared.treatment, compared.control, compared.users
    mean = treatment.n / users * treatment.mean + control.n / users * control.mean
    variance = treatment.n / users * treatment.variance + control.n / users * control.variance
    margin = measure.margin or DEFAULT_MARGIN
    if margin.relative is None:
        distance, worst = margin.absolute or 0.0, 0.0
    else:
        distance, worst = margin.relative * abs(mean), gain(measure, -margin.relative)
    sign = math.copysign(1.0, mean)
    control_share = (1 + sign * worst) * (1 + sign * worst) / control.n
    squared = variance / treatment.n + variance * control_share + worst * worst * compared.shared
    if not distance or not math.isfinite(squared) or not math.isfinite(distance):
        return None
    error = math.sqrt(squared) / distance  # in units of the distance; squared, it falls as users come
    width = comparison_width(compared, comparison, design)
    needed = _first(users, lambda count: width(count) * error * math.sqrt(users / count) < 1)
    return None if needed is None else needed - users


def comparison_width(compared: Contrast, comparison: Comparison, design: Design) -> Callable[[int], float]:
    """Return the half-width of the deciding test in standard errors, by the number of users."""
    if comparison.is_fixed and isinstance(comparison.difference, Estimate):
        test = comparison.difference.fixed_horizon
        fixed = ((test.upper or 0.0) - (test.lower or 0.0)) / 2 / compared.error
        return lambda count: fixed
    tuning = {"tuning_size": design.tuning_size, "alpha": design.alpha}
    return lambda count: float(sequential.half_width(1.0, count, **tuning))


def _first(users: int, suffices: Callable[[int], bool]) -> int | None:
    """Return the smallest number of users that suffices, which is at least `users`; None if it is far too large."""
    if suffices(users):
        return users
    low, high = users, 2 * users
    while not suffices(high):
        low, high = high, 2 * high
        if high > MAX_USERS:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if suffices(middle) else (middle, high)
    return high
