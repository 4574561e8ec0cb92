"""The verdict: what to do now, and why.

It follows from the always-valid results of the first goal, the guardrails, and the checks of the data.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from experiments.stats import multiplicity
from experiments.stats.types import (
    Comparison,
    Correction,
    Decision,
    Estimate,
    Inputs,
    Measure,
    MeasureAnalysis,
    Reason,
    ReasonCode,
    SampleRatio,
    Sums,
    Verdict,
)

LEAST_USERS = 100
LEAST_CONVERSIONS = 10
MOST_IN_SEVERAL = 0.01
# Two values without variance are equal if they differ, relative to the larger one, by less than this:
# their sums may have been rounded differently.
ROUNDING = 1e-9
NO_GOAL = Reason(ReasonCode.NO_GOAL, "No metric is a goal, and guardrails alone do not decide.")
MIXED_PHASES = Reason(
    ReasonCode.MIXED_PHASES,
    "The phases have different weights, so a difference between their times looks like an effect. "
    "Select phases with the same weights.",
)
NO_TREATMENT = Reason(ReasonCode.TOO_FEW_USERS, "Only the control gets users: all other variants have the weight 0.")

_WORDS = {
    ReasonCode.BETTER: "better",
    ReasonCode.WORSE: "worse",
    ReasonCode.NOT_SIGNIFICANT: "this may be chance",
    ReasonCode.GUARDRAIL_HARMED: "a guardrail is harmed",
}


def decide(inputs: Inputs, measures: Sequence[MeasureAnalysis], ratio: SampleRatio | Reason) -> Verdict:
    """Decide by the first goal that was registered before the start.

    Its p-values are adjusted for the number of treatments alone, not for other metrics. Metrics that
    were added after the start decide nothing. The checks come in this order:

    1. If the data cannot be trusted, the verdict is to check them.
    2. If a variant is too small to judge, the experiment is undecided.
    3. A treatment that is better is shipped if all guardrails are known and none is harmed. Of
       several such treatments, the best is shipped.
    4. If every treatment is worse or harms a guardrail, none is shipped.

    Variants of weight 0 are left out.
    """
    if suspicions := list(_suspicions(inputs, ratio)):
        return Verdict(Decision.CHECK_DATA, None, suspicions)
    undecided = Decision.KEEP_RUNNING if inputs.design.is_running else Decision.INCONCLUSIVE
    primary = next((index for index, measure in enumerate(inputs.measures) if measure.is_registered_goal), None)
    if primary is None:
        return Verdict(undecided, None, [NO_GOAL])
    if shortages := list(_shortages(inputs, primary)):
        return Verdict(undecided, None, shortages)
    outcomes = _judge(inputs, measures, primary)
    if not outcomes:
        return Verdict(undecided, None, [NO_TREATMENT])
    reasons = [reason for outcome in outcomes for reason in (outcome.finding, *outcome.objections)]
    if winners := [outcome for outcome in outcomes if outcome.is_better and not outcome.objections]:
        return Verdict(Decision.SHIP, max(winners, key=lambda winner: winner.gain).variant, reasons)
    if all(outcome.is_rejected for outcome in outcomes):
        return Verdict(Decision.DO_NOT_SHIP, None, reasons)
    return Verdict(undecided, None, reasons)


def find_harmed(inputs: Inputs, measures: Sequence[MeasureAnalysis]) -> Mapping[str, Sequence[str]]:
    """Return the keys of the guardrails that each treatment harms, by treatment key, for any verdict."""
    treatments = [variant.key for variant in inputs.design.variants if variant.key != inputs.design.control]
    return {
        key: [
            measure
            for measure, objection in _objections(inputs, measures, key)
            if objection.code == ReasonCode.GUARDRAIL_HARMED
        ]
        for key in treatments
    }


def _suspicions(inputs: Inputs, ratio: SampleRatio | Reason) -> Iterator[Reason]:
    """Yield the reasons why the data cannot be trusted."""
    if inputs.is_mixed:
        yield MIXED_PHASES
    if isinstance(ratio, SampleRatio) and ratio.is_mismatch:
        split = ", ".join(f"{key} {inputs.users.get(key, 0)} ({users:.0f})" for key, users in ratio.expected.items())
        message = f"Users are not split by the weights. Users by variant, with the expected number: {split}."
        yield Reason(ReasonCode.SAMPLE_RATIO_MISMATCH, f"{message} Find the cause: the variants cannot be compared.")
    total = sum(inputs.users.values())
    if inputs.several > MOST_IN_SEVERAL * total:
        message = f"{inputs.several} of {total} users were seen in several variants, which is more than 1 %."
        yield Reason(ReasonCode.USERS_IN_SEVERAL_VARIANTS, message)


def _shortages(inputs: Inputs, primary: int) -> Iterator[Reason]:
    """Yield a reason for each variant that is too small to judge."""
    measure = inputs.measures[primary]
    for variant in inputs.design.variants:
        sums = inputs.sums[primary].get(variant.key, Sums())
        if not variant.weight:
            continue
        if sums.n < LEAST_USERS:
            message = f"{variant.key} has {_count(sums.n, 'user')}; a verdict needs {LEAST_USERS} in every variant."
            yield Reason(ReasonCode.TOO_FEW_USERS, message)
        # Where values are mostly below 0, there are no conversions to count.
        elif sums.positive < LEAST_CONVERSIONS and sums.y >= 0:
            converted = _count(sums.positive, "user")
            message = f"{measure.key}: {converted} of {variant.key} converted; a verdict needs {LEAST_CONVERSIONS}."
            yield Reason(ReasonCode.TOO_FEW_CONVERSIONS, message)


@dataclass(frozen=True, slots=True)
class _Outcome:
    """The judgement of one treatment.

    `gain` is its difference in the first goal, above 0 where the difference is good. `objections` are
    the guardrails that it harms, and those that cannot be judged.
    """

    variant: str
    gain: float
    finding: Reason
    objections: Sequence[Reason]

    @property
    def is_better(self) -> bool:
        return self.finding.code == ReasonCode.BETTER

    @property
    def is_rejected(self) -> bool:
        is_harmful = any(reason.code == ReasonCode.GUARDRAIL_HARMED for reason in self.objections)
        return is_harmful or self.finding.code == ReasonCode.WORSE


def _judge(inputs: Inputs, measures: Sequence[MeasureAnalysis], primary: int) -> Sequence[_Outcome]:
    measure, comparisons = inputs.measures[primary], _comparisons(measures[primary])
    treatments = [variant.key for variant in inputs.design.variants if variant.weight and variant.key in comparisons]
    differences = {key: comparisons[key].difference for key in treatments}
    p_values = _adjust(differences, inputs.design.correction)
    return [
        _Outcome(
            key,
            0.0 if isinstance(difference, Reason) else _gain(measure, difference.estimate),
            _find(inputs, measure, key, difference, p_values),
            [objection for _, objection in _objections(inputs, measures, key)],
        )
        for key, difference in differences.items()
    ]


def _adjust(differences: Mapping[str, Estimate | Reason], correction: Correction) -> Mapping[str, float]:
    """Return the always-valid p-values by treatment, adjusted for the number of comparable treatments."""
    tests = {
        key: difference.always_valid for key, difference in differences.items() if isinstance(difference, Estimate)
    }
    return dict(zip(tests, multiplicity.adjust([test.p_value for test in tests.values()], correction), strict=True))


def _gain(measure: Measure, amount: float) -> float:
    """Return a difference with the sign changed if a decrease is good."""
    return -amount if measure.is_decrease_good else amount


def _find(
    inputs: Inputs, measure: Measure, key: str, difference: Estimate | Reason, p_values: Mapping[str, float]
) -> Reason:
    """Return the finding of the first goal for one treatment."""
    if isinstance(difference, Reason):
        return Reason(ReasonCode.NOT_SIGNIFICANT, _incomparable(inputs, measure, key, difference))
    code = ReasonCode.BETTER if _gain(measure, difference.estimate) > 0 else ReasonCode.WORSE
    if p_values[key] >= inputs.design.alpha:
        code = ReasonCode.NOT_SIGNIFICANT
    p = f"p = {p_values[key]:.2g}"
    if len(p_values) > 1:
        correction = "Holm" if inputs.design.correction == "holm" else "Benjamini-Hochberg"
        p = f"{p} after {correction} over {len(p_values)} treatments"
    return Reason(code, f"{_describe(inputs, measure, key, difference)}, {p}: {_WORDS[code]}.")


def _objections(inputs: Inputs, measures: Sequence[MeasureAnalysis], key: str) -> Iterator[tuple[str, Reason]]:
    """Yield the keys of the guardrails that object to one treatment, each with the reason."""
    for measure, sums, analysis in zip(inputs.measures, inputs.sums, measures, strict=True):
        difference = _comparisons(analysis)[key].difference
        if not measure.is_guardrail or measure.is_post_hoc:
            continue
        if isinstance(difference, Estimate):
            test = difference.always_valid
            if max(_gain(measure, test.lower), _gain(measure, test.upper)) < 0:
                yield measure.key, _harm(_describe(inputs, measure, key, difference))
            continue
        change = _certain_change(inputs, analysis, key, difference)
        if _gain(measure, change) < 0:
            message = f"{_distance(inputs, measure, key, change)}, and all users of a variant have the same value"
            yield measure.key, _harm(message)
        elif difference.code != ReasonCode.NO_VARIANCE and not _is_silent(sums, key, inputs.design.control):
            message = _incomparable(inputs, measure, key, difference)
            yield measure.key, Reason(ReasonCode.GUARDRAIL_UNKNOWN, message)


def _harm(described: str) -> Reason:
    return Reason(ReasonCode.GUARDRAIL_HARMED, f"{described}: {_WORDS[ReasonCode.GUARDRAIL_HARMED]}.")


def _certain_change(inputs: Inputs, analysis: MeasureAnalysis, key: str, difference: Reason) -> float:
    """Return the difference from the control where all users of a variant have the same value.

    The answer is 0 where `difference` is missing for another reason.
    """
    values = {variant.key: variant.value for variant in analysis.variants}
    treatment, control = values[key], values[inputs.design.control]
    if difference.code != ReasonCode.NO_VARIANCE or treatment is None or control is None:
        return 0.0
    return 0.0 if math.isclose(treatment, control, rel_tol=ROUNDING) else treatment - control


def _is_silent(sums: Mapping[str, Sums], key: str, control_key: str) -> bool:
    """Return whether both variants have users and none of them did what the measure counts.

    Then there can be no harm.
    """
    treatment, control = sums.get(key, Sums()), sums.get(control_key, Sums())
    counted = (treatment.y, treatment.yy, control.y, control.yy)
    return min(treatment.n, control.n) > 1 and not any(counted) and bool(treatment.d) == bool(control.d)


def _comparisons(analysis: MeasureAnalysis) -> Mapping[str, Comparison]:
    return {variant.key: variant.comparison for variant in analysis.variants if variant.comparison}


def _incomparable(inputs: Inputs, measure: Measure, key: str, cause: Reason) -> str:
    return f"{measure.key} of {key} cannot be compared with {inputs.design.control}'s: {cause.message}"


def _describe(inputs: Inputs, measure: Measure, key: str, difference: Estimate) -> str:
    """Describe the difference of a treatment from the control, with its interval."""
    (scale, _), test = _unit(measure), difference.always_valid
    interval = f"{test.lower * scale:.3g} to {test.upper * scale:.3g}"
    level = f"{100 * (1 - inputs.design.alpha):.3g} %"
    return f"{_distance(inputs, measure, key, difference.estimate)} ({level} always-valid interval {interval})"


def _distance(inputs: Inputs, measure: Measure, key: str, amount: float) -> str:
    scale, unit = _unit(measure)
    side = "above" if amount > 0 else "below"
    return f"{measure.key} of {key} is {abs(amount) * scale:.3g}{unit} {side} {inputs.design.control}"


def _unit(measure: Measure) -> tuple[int, str]:
    """Return the factor and the unit in which values are shown to people."""
    return (100, " percentage points") if measure.kind == "share" else (1, "")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
