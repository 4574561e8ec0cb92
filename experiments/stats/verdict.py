"""The verdict: what to do now, and why.

It follows from the plan, the test that decides the first goal, the guardrails, and the checks of the data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from experiments.stats.findings import (
    MAX_TIME_OFF,
    describe_guardrail,
    describe_remaining,
    describe_size,
    find,
    find_before,
    find_flag_off,
    find_left_out,
)
from experiments.stats.guardrails import MIN_USERS, gain
from experiments.stats.numbers import format_count
from experiments.stats.outcomes import Decision, MeasureAnalysis, SampleRatio, Verdict
from experiments.stats.plans import counted_users, is_unread, planned_users, primary_index
from experiments.stats.types import Comparison, Estimate, Inputs, Measure, Quantile, Reason, ReasonCode

MIN_CONVERSIONS = 10
MAX_IN_SEVERAL = 0.01
NO_GOAL = Reason(ReasonCode.NO_GOAL, "No metric is a goal, and guardrails alone do not decide.")
NO_TREATMENT = Reason(ReasonCode.TOO_FEW_USERS, "Only the control gets users: all other variants have the weight 0.")


def decide(inputs: Inputs, measures: Sequence[MeasureAnalysis], ratio: SampleRatio | Reason) -> Verdict:
    """Decide by the first goal that was registered before the start.

    Its p-values are adjusted for the number of treatments alone, not for other metrics. Metrics that
    were added after the start decide nothing. The checks come in this order:

    1. If the data cannot be trusted, the verdict is to check them.
    2. If a fixed analysis has not reached its planned size, or a variant is too small to judge, the
       experiment is undecided. A fixed analysis that was read is inconclusive in the second case.
    3. A treatment that is better is shipped if all guardrails are shown safe and the shortest run is
       over. Of several such treatments, the best is shipped.
    4. If every treatment is worse or harms a guardrail, none is shipped.
    5. At the planned size, the experiment is over: with no difference if every treatment is within
       the smallest effect of interest, and inconclusive otherwise.

    Variants of weight 0 are left out.
    """
    if suspicions := list(_suspicions(inputs, ratio)):
        return Verdict(Decision.CHECK_DATA, None, suspicions)
    verdict = _decide(inputs, measures)
    warnings = [
        *find_left_out(inputs, measures),
        *find_before(inputs, measures),
        *find_flag_off(inputs.design),
    ]
    return Verdict(verdict.decision, verdict.variant, [*verdict.reasons, *warnings])


def find_harmed(inputs: Inputs, measures: Sequence[MeasureAnalysis]) -> Mapping[str, Sequence[str]]:
    """Return the guardrails that each treatment harms, by key, whatever the verdict."""
    treatments = [variant.key for variant in inputs.design.variants if variant.key != inputs.design.control]
    return {
        key: [
            measure.key
            for measure, analysis in _guardrails(inputs, measures)
            if (guardrail := _comparisons(analysis)[key].guardrail) and guardrail.status == "harmed"
        ]
        for key in treatments
    }


def _decide(inputs: Inputs, measures: Sequence[MeasureAnalysis]) -> Verdict:
    undecided = Decision.KEEP_RUNNING if inputs.design.is_running else Decision.INCONCLUSIVE
    primary = primary_index(inputs)
    if primary is None:
        return Verdict(undecided, None, [NO_GOAL])
    if missing := list(_missing_for_reading(inputs, primary)):
        return Verdict(undecided, None, missing)
    if shortages := list(_shortages(inputs, measures, primary)):
        # A fixed analysis is not read again, so that waiting would not help.
        is_over = inputs.design.plan.analysis == "fixed"
        return Verdict(Decision.INCONCLUSIVE if is_over else undecided, None, shortages)
    outcomes = _judge(inputs, measures, primary)
    if not outcomes:
        return Verdict(undecided, None, [NO_TREATMENT])
    return _weigh(inputs, outcomes, primary, undecided)


def _weigh(inputs: Inputs, outcomes: Sequence[_Outcome], primary: int, undecided: Decision) -> Verdict:
    reasons = [reason for outcome in outcomes for reason in (outcome.finding, *outcome.objections)]
    if winners := [outcome for outcome in outcomes if outcome.is_better and not outcome.objections]:
        if days := describe_remaining(inputs.design.plan):
            return Verdict(undecided, None, [*reasons, days])
        return Verdict(Decision.SHIP, max(winners, key=lambda winner: winner.gain).variant, reasons)
    if all(outcome.is_rejected for outcome in outcomes):
        return Verdict(Decision.DO_NOT_SHIP, None, reasons)
    is_waiting = any(outcome.is_waiting_for_guardrails for outcome in outcomes)
    size = describe_size(inputs, primary)
    if size is None or (is_waiting and inputs.design.plan.analysis == "sequential"):
        return Verdict(undecided, None, reasons)
    if not size.is_reached:
        return Verdict(undecided, None, [*reasons, size.reason])
    if all(outcome.is_rejected or (outcome.is_within_minimum and not outcome.is_better) for outcome in outcomes):
        return Verdict(Decision.NO_DIFFERENCE, None, [*reasons, size.reason])
    return Verdict(Decision.INCONCLUSIVE, None, [*reasons, size.reason])


def _suspicions(inputs: Inputs, ratio: SampleRatio | Reason) -> Iterator[Reason]:
    """Yield the reasons why the data cannot be trusted."""
    if isinstance(ratio, SampleRatio) and ratio.is_mismatch:
        split = ", ".join(f"{key} {inputs.users.get(key, 0)} ({users:.0f})" for key, users in ratio.expected.items())
        message = f"Users are not split by the weights. Users by variant, with the expected number: {split}."
        yield Reason(ReasonCode.SAMPLE_RATIO_MISMATCH, f"{message} Find the cause: the variants cannot be compared.")
    total = sum(inputs.users.values())
    if inputs.in_several_variants > MAX_IN_SEVERAL * total:
        message = (
            f"{inputs.in_several_variants} of {total} users were seen in several variants, which is more than 1 %."
        )
        yield Reason(ReasonCode.USERS_IN_SEVERAL_VARIANTS, message)
    off = inputs.design.flag_off
    if off is not None and off.duration >= MAX_TIME_OFF:
        yield from find_flag_off(inputs.design)


def _missing_for_reading(inputs: Inputs, primary: int) -> Iterator[Reason]:
    """Yield what a fixed analysis still lacks to be read."""
    plan = inputs.design.plan
    if not is_unread(plan):
        return
    counted, planned = counted_users(inputs, primary), planned_users(inputs.design)
    missing = {key: users for key, users in planned.items() if counted[key] < users}
    for key, users in missing.items():
        has = f"{key} has {format_count(counted[key], inputs.measures[primary].user)}"
        message = f"{has} of the {users:,} that are planned; the results are read at that size."
        yield Reason(ReasonCode.PLANNED_SIZE, message)
    if not missing:
        message = "The results are read when every variant has its planned number of users who count."
        yield Reason(ReasonCode.PLANNED_SIZE, message)


def _shortages(inputs: Inputs, measures: Sequence[MeasureAnalysis], primary: int) -> Iterator[Reason]:
    """Yield a reason for each variant that is too small to judge, by the users of its comparison."""
    comparisons, control = _comparisons(measures[primary]), inputs.design.control
    found: dict[Reason, None] = {}
    for key in (variant.key for variant in inputs.design.variants if variant.weight and variant.key in comparisons):
        strata = comparisons[key].basis.strata
        if strata:
            pairs = (control, key), (key, control)
            found |= dict.fromkeys(filter(None, (_shortage(inputs, primary, *pair, strata) for pair in pairs)))
        else:
            message = f"In no phase do both {control} and {key} have 2 users; a verdict needs {MIN_USERS} in each."
            found[Reason(ReasonCode.TOO_FEW_USERS, message)] = None
    yield from found


def _shortage(inputs: Inputs, primary: int, key: str, other: str, indexes: Sequence[int]) -> Reason | None:
    measure, strata = inputs.measures[primary], [stratum.sums[primary] for stratum in inputs.strata]
    sums = [strata[index][key] for index in indexes if key in strata[index]]
    users = sum(part.n for part in sums)
    is_everybody = users == counted_users(inputs, primary)[key]
    where = "" if is_everybody else f" in the phases of its comparison with {other}"
    if users < MIN_USERS:
        message = f"{key} has {format_count(users, measure.user)}{where}; a verdict needs {MIN_USERS} in every variant."
        return Reason(ReasonCode.TOO_FEW_USERS, message)
    converted = sum(part.events if isinstance(part, Quantile) else part.positive for part in sums)
    # Where values are mostly below 0, there are no conversions to count.
    if converted < MIN_CONVERSIONS and sum(0.0 if isinstance(part, Quantile) else part.y for part in sums) >= 0:
        counted = f"{format_count(converted, 'event')} of {key}" if measure.kind == "quantile" else None
        counted = counted or f"{format_count(converted, 'user')} of {key} converted"
        message = f"{measure.key}: {counted}{where}; a verdict needs {MIN_CONVERSIONS}."
        return Reason(ReasonCode.TOO_FEW_CONVERSIONS, message)
    return None


@dataclass(frozen=True, slots=True)
class _Outcome:
    """The judgement of a treatment.

    `gain` is its difference in the first goal; above 0 is good. `objections` are guardrails that it harms, or that are
    not shown safe. `is_within_minimum` says that the interval of the lift is within the smallest effect of interest.
    """

    variant: str
    gain: float
    finding: Reason
    objections: Sequence[Reason]
    is_within_minimum: bool

    @property
    def is_better(self) -> bool:
        return self.finding.code == ReasonCode.BETTER

    @property
    def is_harmful(self) -> bool:
        return any(reason.code == ReasonCode.GUARDRAIL_HARMED for reason in self.objections)

    @property
    def is_rejected(self) -> bool:
        return self.is_harmful or self.finding.code == ReasonCode.WORSE

    @property
    def is_waiting_for_guardrails(self) -> bool:
        return self.is_better and not self.is_harmful and bool(self.objections)


def _judge(inputs: Inputs, measures: Sequence[MeasureAnalysis], primary: int) -> Sequence[_Outcome]:
    measure, comparisons = inputs.measures[primary], _comparisons(measures[primary])
    treatments = [variant.key for variant in inputs.design.variants if variant.weight and variant.key in comparisons]
    return [
        _Outcome(
            key,
            _gain(measure, comparisons[key]),
            find(inputs, measure, key, comparisons[key]),
            list(_objections(inputs, measures, key)),
            _is_within_minimum(inputs, comparisons[key]),
        )
        for key in treatments
    ]


def _gain(measure: Measure, comparison: Comparison) -> float:
    difference = comparison.difference
    return gain(measure, difference.estimate) if isinstance(difference, Estimate) else 0.0


def _is_within_minimum(inputs: Inputs, comparison: Comparison) -> bool:
    least = inputs.design.plan.minimum_effect
    if least is None or isinstance(comparison.lift, Reason):
        return False
    test = comparison.deciding(comparison.lift)
    return test.lower is not None and test.upper is not None and -least <= test.lower and test.upper <= least


def _objections(inputs: Inputs, measures: Sequence[MeasureAnalysis], key: str) -> Iterator[Reason]:
    for measure, analysis in _guardrails(inputs, measures):
        variants = {variant.key: variant for variant in analysis.variants}
        if objection := describe_guardrail(inputs, measure, variants[key], _comparisons(analysis)[key]):
            yield objection


def _guardrails(inputs: Inputs, measures: Sequence[MeasureAnalysis]) -> Iterator[tuple[Measure, MeasureAnalysis]]:
    """Yield the guardrails that were registered before the start."""
    for measure, analysis in zip(inputs.measures, measures, strict=True):
        if measure.is_guardrail and not measure.is_post_hoc:
            yield measure, analysis


def _comparisons(analysis: MeasureAnalysis) -> Mapping[str, Comparison]:
    return {variant.key: variant.comparison for variant in analysis.variants if variant.comparison}
