"""Guardrails: whether a treatment is shown to be no worse than the control by more than a margin."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from experiments.stats import sequential
from experiments.stats.effects import Contrast
from experiments.stats.samples import Sample
from experiments.stats.shortages import MIN_USERS, BySums, users_to_judge
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


@dataclass(frozen=True, slots=True)
class GuardrailSides:
    """Both variants of a comparison.

    `is_silent` says that neither has an event of the measure. `pair` are their keys in the `strata`.
    """

    treatment: Sample | Reason
    control: Sample | Reason
    contrast: Contrast | Reason
    is_silent: bool
    strata: Sequence[BySums]
    pair: tuple[str, str]

    @property
    def users(self) -> Sequence[int]:
        """The users who count in each variant."""
        return [sum(stratum[key].n for stratum in self.strata if key in stratum) for key in self.pair]


def judge(measure: Measure, sides: GuardrailSides, comparison: Comparison, design: Design) -> Guardrail:
    """Return what is known of a guardrail, by the test that decides its row."""
    margin = _both_forms(measure.margin or DEFAULT_MARGIN, sides.control)
    missing = sum(max(MIN_USERS - users, 0) for users in sides.users)
    if sides.is_silent:
        return Guardrail("undecided", margin, missing) if missing else Guardrail("silent", margin)
    if comparison.shortages:
        needed = _users_needed(measure, sides, design) if isinstance(sides.contrast, Contrast) else missing or None
        return Guardrail("undecided", margin, needed)
    if isinstance(comparison.difference, Reason):
        return Guardrail(_without_test(measure, margin, sides, comparison.difference), margin)
    if _is_safe(measure, comparison, comparison.difference):
        return Guardrail("safe", margin)
    if comparison.label == "worse":
        return Guardrail("harmed", margin)
    return Guardrail("undecided", margin, _users_needed(measure, sides, design))


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
    return worst is not None and gain(measure, worst) > -limit


def _users_needed(measure: Measure, sides: GuardrailSides, design: Design) -> int | None:
    """Return the further users after which the guardrail would be safe if there were no difference.

    Without a difference, both variants have the mean and the variance of all their users. They keep their proportion.
    """
    compared = sides.contrast
    if isinstance(compared, Reason):
        return None
    users, margin, tuning = compared.users, measure.margin or DEFAULT_MARGIN, {"tuning_size": design.tuning_size}
    worst = gain(measure, -(margin.absolute or 0.0 if margin.relative is None else margin.relative))

    def suffices(count: int) -> bool:
        alike = compared.pair.alike(count / users)
        if margin.relative is None:
            z = alike.z_of_difference(worst)
        else:
            z = alike.z_of_ratio(1 + math.copysign(worst, worst * (alike.control or 1.0)))
        return abs(z) > sequential.half_width(1.0, float(count), alpha=design.alpha, **tuning)

    needed = _first(users, suffices) if worst else None
    enough = users_to_judge(measure, sides.strata, sides.pair)
    return None if needed is None or enough is None else max(needed, enough) - users


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
