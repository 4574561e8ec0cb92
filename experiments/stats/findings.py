"""What the verdict rests on, in words: findings of goals and guardrails, the plan, and warnings."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, timedelta

from experiments.stats.guardrails import DEFAULT_MARGIN
from experiments.stats.numbers import equate_p_value, format_count, format_number, format_percent
from experiments.stats.outcomes import MeasureAnalysis, SampleRatio
from experiments.stats.plans import counted_users
from experiments.stats.types import (
    Comparison,
    Design,
    Estimate,
    Guardrail,
    Inputs,
    Label,
    Measure,
    Plan,
    Reason,
    ReasonCode,
    Test,
    VariantEstimate,
    name_phases,
)

SUSPICIOUS = 0.001
"""A difference before the exposure is no chance if its always-valid p-value is below this.

A sample ratio with such a p-value of Pearson's test is worth a warning.
"""
MAX_TEXTS = 0.01
"""If a larger share of the events of a metric have a text in place of a number, its values mean nothing."""
MAX_TIME_OFF = timedelta(days=1)
"""If the flag has been off for longer, the verdict is to check the data."""
_DAY = timedelta(days=1)
_HOUR = timedelta(hours=1)
_FINDINGS: Mapping[Label, tuple[ReasonCode, str]] = {
    "better": (ReasonCode.BETTER, "better"),
    "worse": (ReasonCode.WORSE, "worse"),
    "unclear": (ReasonCode.NOT_SIGNIFICANT, "this may be chance"),
    "unread": (ReasonCode.NOT_SIGNIFICANT, "this is not read yet"),
}


def find(
    inputs: Inputs,
    measure: Measure,
    key: str,
    comparison: Comparison,
    *,
    is_worse: bool = False,
    is_within_minimum: bool = False,
) -> Reason:
    """Return the finding of the first goal for a treatment. It may be worse before a fixed analysis is read."""
    code, words = _FINDINGS["worse" if is_worse else comparison.label]
    if is_within_minimum and code == ReasonCode.BETTER:
        words = f"better, but by less than the {_minimum(inputs.design.plan)} that you asked for"
    if isinstance(comparison.difference, Reason):
        return Reason(code, _incomparable(inputs, measure, key, comparison.difference))
    p = equate_p_value(comparison.deciding(comparison.difference).p_value)
    if (family := comparison.family or 1) > 1:
        correction = "Holm" if inputs.design.correction == "holm" else "Benjamini-Hochberg"
        p = f"{p} after {correction} over {family} treatments"
    return Reason(code, f"{_describe(inputs, measure, key, comparison, comparison.difference)}, {p}: {words}.")


def describe_guardrail(
    inputs: Inputs, measure: Measure, treatment: VariantEstimate, comparison: Comparison
) -> Reason | None:
    """Describe a guardrail that is harmed, undecided or silent; None for any other."""
    guardrail, key = comparison.guardrail, treatment.key
    if guardrail is None or guardrail.status == "safe":
        return None
    if guardrail.status == "silent":
        message = f"Guardrail {measure.key} of {key} has no events in any variant: check that they are tracked."
        return Reason(ReasonCode.GUARDRAIL_SILENT, message)
    if guardrail.status == "harmed":
        harm = _harm(inputs, measure, treatment, comparison)
        return Reason(ReasonCode.GUARDRAIL_HARMED, f"{harm}: a guardrail is harmed.")
    if comparison.shortages:
        message = f"Guardrail {measure.key} of {key} is not decided: {comparison.shortages[0].message}"
        if guardrail.users_needed:
            users = format_count(guardrail.users_needed, f"more {measure.user}")
            message = f"{message} It needs {users} in {inputs.design.control} and {key} together."
        return Reason(ReasonCode.GUARDRAIL_UNDECIDED, message)
    if isinstance(comparison.difference, Reason):
        message = _incomparable(inputs, measure, key, comparison.difference)
        return Reason(ReasonCode.GUARDRAIL_UNDECIDED, message)
    change = "rise" if measure.is_decrease_good else "fall"
    shown = f"Guardrail {measure.key} of {key} may {change} by more than its margin of {_margin(measure)}"
    needed = _needed(measure, guardrail, inputs.design.control, key)
    return Reason(ReasonCode.GUARDRAIL_UNDECIDED, f"{shown}: {needed}.")


def _harm(inputs: Inputs, measure: Measure, treatment: VariantEstimate, comparison: Comparison) -> str:
    if isinstance(comparison.difference, Estimate):
        return _describe(inputs, measure, treatment.key, comparison, comparison.difference)
    beside = comparison.basis.control.value or 0.0
    change = _distance(inputs, measure, treatment.key, (treatment.value or 0.0) - beside)
    return f"{change}, and all users of a variant have the same value"


def _margin(measure: Measure) -> str:
    margin = measure.margin or DEFAULT_MARGIN
    if margin.relative is not None:
        return f"{100 * margin.relative:.3g} %"
    return f"{_amount(measure, margin.absolute or 0.0)}{_unit(measure)}"


def _needed(measure: Measure, guardrail: Guardrail, control: str, key: str) -> str:
    if guardrail.users_needed is None:
        return "the users that it needs cannot be computed yet"
    if guardrail.users_needed == 0:
        return "there are enough users to show that it is safe, so it may be harmed"
    users = format_count(guardrail.users_needed, f"more {measure.user}")
    return f"it needs {users} in {control} and {key} together if there is no difference"


def describe_worse_goal(inputs: Inputs, measure: Measure, key: str, comparison: Comparison) -> Reason:
    """Say that another goal than the first is worse."""
    assert isinstance(comparison.difference, Estimate)  # noqa: S101 (its label says so)
    described = _describe(inputs, measure, key, comparison, comparison.difference)
    return Reason(ReasonCode.GOAL_WORSE, f"{described}: this goal is worse.")


def describe_indistinguishable(measure: Measure, key: str, others: Sequence[str]) -> Reason:
    """Name the treatments that may be as good as the winner."""
    *first, last = others
    named = f"{', '.join(first)} or {last}" if first else last
    message = f"{measure.key} of {key} is not shown to differ from that of {named}: any of them may be the best."
    return Reason(ReasonCode.NOT_DISTINGUISHABLE, message)


def find_waiting(inputs: Inputs) -> Iterator[Reason]:
    """Yield the number of users whose windows a stop would cut off, for each metric; none once it is stopped."""
    if not inputs.design.is_running:
        return
    exposed = sum(inputs.users.values())
    for index, measure in enumerate(inputs.measures):
        waiting = exposed - sum(counted_users(inputs, index).values())
        if measure.counts_mature_users and waiting > 0:
            users = f"{waiting:,} of {format_count(exposed, 'user')}"
            yield Reason(ReasonCode.USERS_WAITING, f"{measure.key}: a stop now cuts off the windows of {users}.")


def find_not_numbers(inputs: Inputs) -> Iterator[Reason]:
    """Yield a reason for each registered metric many of whose events have a text in place of their number."""
    for measure in inputs.measures:
        if not measure.is_post_hoc and measure.texts > MAX_TEXTS * measure.events:
            events = f"{measure.texts:,} of {format_count(measure.events, 'event')} of {measure.key}"
            message = f"{events} have a text or another value in place of their number, which does not count"
            yield Reason(ReasonCode.NOT_NUMBERS, f"{message}: send numbers.")


def describe_remaining(plan: Plan) -> Reason | None:
    """Say how long the shortest run still lasts; None once it is over."""
    if plan.remaining <= timedelta(0):
        return None
    left = format_count(math.ceil(plan.remaining / _DAY), "day")
    return Reason(ReasonCode.SHORTEST_RUN, f"The shortest run that was planned is not over: {left} left.")


@dataclass(frozen=True, slots=True)
class SizeFinding:
    """Whether the planned size is reached, and a sentence about it."""

    is_reached: bool
    reason: Reason


def describe_size(inputs: Inputs, primary: int) -> SizeFinding | None:
    """Compare the users that count for the primary metric with the planned size; None without a planned size."""
    plan, users = inputs.design.plan, sum(counted_users(inputs, primary).values())
    if plan.size is None:
        return None
    if plan.analysis == "sequential" and users < plan.size:
        counted = format_count(users, inputs.measures[primary].user)
        return SizeFinding(
            False, Reason(ReasonCode.PLANNED_SIZE, f"{plan.size:,} users are planned; {counted} count so far.")
        )
    reached = f"The planned size of {format_count(plan.size, 'user')} is reached"
    if plan.minimum_effect is None:
        return SizeFinding(True, Reason(ReasonCode.PLANNED_SIZE, f"{reached}."))
    message = f"{reached}; the smallest effect of interest is {_minimum(plan)}."
    return SizeFinding(True, Reason(ReasonCode.PLANNED_SIZE, message))


def _minimum(plan: Plan) -> str:
    return f"{100 * (plan.minimum_effect or 0.0):.3g} %"


def find_left_out(inputs: Inputs, measures: Sequence[MeasureAnalysis]) -> Iterator[Reason]:
    """Yield a warning for each comparison that leaves out strata with too few users."""
    control = inputs.design.control
    for index, analysis in enumerate(measures):
        for key, left_out in analysis.left_out.items():
            if not left_out:
                continue
            strata = [inputs.strata[number] for number in left_out]
            pairs = [(part.sums[index].get(control), part.sums[index].get(key)) for part in strata]
            users = format_count(sum(sums.n for pair in pairs for sums in pair if sums), inputs.measures[index].user)
            phases = sorted(phase for part in strata for phase in part.phases)
            message = (
                f"{analysis.key} of {key}: {users} of {name_phases(phases)} left out, because "
                f"{control} or {key} had fewer than 2 users then."
            )
            yield Reason(ReasonCode.STRATUM_LEFT_OUT, message)


def is_suspicious(before: Estimate | Reason) -> bool:
    """Return whether variants differed before the exposure."""
    return isinstance(before, Estimate) and before.always_valid.p_value < SUSPICIOUS


def find_before(inputs: Inputs, measures: Sequence[MeasureAnalysis]) -> Iterator[Reason]:
    """Yield a reason for each measure that differed before the exposure."""
    weighted = {variant.key for variant in inputs.design.variants if variant.weight}
    for measure, analysis in zip(inputs.measures, measures, strict=True):
        if measure.is_post_hoc:
            continue
        for key, before in analysis.before.items():
            if key in weighted and isinstance(before, Estimate) and is_suspicious(before):
                message = (
                    f"{analysis.key} of {key} differed from {inputs.design.control} before the exposure already "
                    f"({equate_p_value(before.always_valid.p_value)}): look for the cause before you trust the results."
                )
                yield Reason(ReasonCode.DIFFERENT_BEFORE, message)


def find_suspicious_ratio(ratio: SampleRatio | Reason) -> Iterator[Reason]:
    """Yield a warning if users may not be split by the weights, though that is not proven yet."""
    if isinstance(ratio, SampleRatio) and ratio.chi_square_p < SUSPICIOUS and not ratio.is_mismatch:
        message = (
            f"Users may not be split by the weights: for this look alone, {equate_p_value(ratio.chi_square_p)}. "
            "Look for a cause."
        )
        yield Reason(ReasonCode.SAMPLE_RATIO_SUSPICIOUS, message)


def find_flag_off(design: Design) -> Iterator[Reason]:
    """Yield a warning if the flag that shows the variants is off, or was off at the end."""
    off = design.flag_off
    if off is None:
        return
    since = f"{off.since.astimezone(UTC):%-d %b %Y, %H:%M UTC}"
    hours, days = off.duration // _HOUR, off.duration // _DAY
    span = format_count(days, "day") if days > 1 else format_count(hours, "hour")
    if not design.is_running:
        during = f"for {span}" if hours else "then"
        message = f"The flag {off.key} was off from {since} until the end: no user saw a variant {during}."
    elif off.duration < MAX_TIME_OFF:
        message = (
            f"The flag {off.key} has been off since {since}: no user sees a variant. If it stays off for a day, "
            "the verdict is to check the data."
        )
    else:
        message = (
            f"The flag {off.key} has been off since {since}: no user has seen a variant for {span}. "
            "Switch it on, or stop the experiment."
        )
    yield Reason(ReasonCode.FLAG_OFF, message)


def _incomparable(inputs: Inputs, measure: Measure, key: str, cause: Reason) -> str:
    return f"{measure.key} of {key} cannot be compared with {inputs.design.control}'s: {cause.message}"


def _describe(inputs: Inputs, measure: Measure, key: str, comparison: Comparison, difference: Estimate) -> str:
    """Describe the difference of a treatment from the control, with its interval."""
    test = comparison.deciding(difference)
    name = "fixed-horizon" if comparison.is_fixed else "always-valid"
    interval = f"{100 * test.level:.4g} % {name} interval {_interval(measure, test)}"
    return f"{_distance(inputs, measure, key, difference.estimate)} ({interval})"


def _interval(measure: Measure, test: Test) -> str:
    lower, upper = test.lower or 0.0, test.upper or 0.0  # those of differences are never open
    return f"{_amount(measure, lower)} to {_amount(measure, upper)}"


def _distance(inputs: Inputs, measure: Measure, key: str, amount: float) -> str:
    if amount == 0:
        return f"{measure.key} of {key} equals that of {inputs.design.control}"
    size, side = f"{_amount(measure, abs(amount))}{_unit(measure)}", "above" if amount > 0 else "below"
    return f"{measure.key} of {key} is {size} {side} {inputs.design.control}"


def _amount(measure: Measure, amount: float) -> str:
    """Return a difference as people read it, without its unit."""
    return format_percent(amount).removesuffix(" %") if measure.kind == "share" else format_number(amount)


def _unit(measure: Measure) -> str:
    return " percentage points" if measure.kind == "share" else ""
