"""The verdict: what to do now, and why.

It follows from the plan, the test that decides the first goal, the guardrails, and the checks of the data. `RULES` has
the rules in their order; the first one that applies decides. Treatments of weight 0 are left out. Metrics that were
added after the start decide nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from experiments.stats.findings import (
    MAX_TIME_OFF,
    describe_guardrail,
    describe_indistinguishable,
    describe_remaining,
    describe_size,
    describe_worse_goal,
    find,
    find_before,
    find_flag_off,
    find_left_out,
    find_not_numbers,
    find_suspicious_ratio,
    find_waiting,
)
from experiments.stats.guardrails import gain
from experiments.stats.numbers import format_count
from experiments.stats.outcomes import Decision, MeasureAnalysis, SampleRatio, Verdict
from experiments.stats.plans import counted_users, is_fixed_reading, is_unread, planned_users, primary_index
from experiments.stats.types import Comparison, Estimate, Inputs, Measure, Reason, ReasonCode, Test

MAX_IN_SEVERAL = 0.01
NO_GOAL = Reason(ReasonCode.NO_GOAL, "No metric is a goal, and guardrails alone do not decide.")
NO_TREATMENT = Reason(ReasonCode.TOO_FEW_USERS, "Only the control gets users: all other variants have the weight 0.")
NO_PLAN = Reason(
    ReasonCode.PLANNED_SIZE,
    "No size was planned, so the experiment ends when a variant is clearly better or worse, or when you stop it.",
)
AreDistinct = Callable[[str, str], bool]
"""Whether the first goal shows a difference between two treatments."""


def decide(
    inputs: Inputs, measures: Sequence[MeasureAnalysis], ratio: SampleRatio | Reason, are_distinct: AreDistinct
) -> Verdict:
    """Decide by the first rule that applies, by the first goal that was registered before the start.

    Its p-values are adjusted for the number of treatments alone, not for other metrics.
    """
    case = Case(inputs, measures, ratio, are_distinct)
    rule, verdict = next((rule.__name__, verdict) for rule in RULES if (verdict := rule(case)))
    if verdict.decision == Decision.CHECK_DATA:
        return replace(verdict, rule=rule)
    warnings = [
        *find_suspicious_ratio(ratio),
        *find_left_out(inputs, measures),
        *find_flag_off(inputs.design),
    ]
    return replace(verdict, reasons=[*verdict.reasons, *warnings], rule=rule)


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


@dataclass(frozen=True, slots=True)
class Outcome:
    """The judgement of a treatment.

    `gain` is its difference in the first goal; above 0 is good. `finding` says what the goal shows. The guardrails that
    it harms, that are not shown safe, and that have no events, are described in `harmed`, `undecided` and `silent`.
    `is_within_minimum` says that the interval of the lift is within the smallest effect of interest.
    """

    variant: str
    gain: float
    finding: Reason
    harmed: Sequence[Reason]
    undecided: Sequence[Reason]
    silent: Sequence[Reason]
    is_better: bool = False
    is_worse: bool = False
    is_within_minimum: bool = False

    @property
    def is_rejected(self) -> bool:
        return self.is_worse or bool(self.harmed)

    @property
    def is_winner(self) -> bool:
        return self.is_better and not self.harmed and not self.is_within_minimum

    @property
    def reasons(self) -> Sequence[Reason]:
        return [self.finding, *self.harmed, *self.undecided, *self.silent]


@dataclass(frozen=True)
class Case:
    """What the rules read."""

    inputs: Inputs
    measures: Sequence[MeasureAnalysis]
    ratio: SampleRatio | Reason
    are_distinct: AreDistinct

    @property
    def undecided(self) -> Decision:
        """Return what `keep_running` reads: a stopped experiment cannot run any longer."""
        return Decision.KEEP_RUNNING if self.inputs.design.is_running else Decision.INCONCLUSIVE

    @cached_property
    def primary(self) -> int | None:
        return primary_index(self.inputs)

    @cached_property
    def outcomes(self) -> Sequence[Outcome]:
        """Return the outcomes of the treatments that get users; without a goal, those of the guardrails."""
        design = self.inputs.design
        keys = [variant.key for variant in design.variants if variant.weight and variant.key != design.control]
        return [self._outcome(key) for key in keys]

    @property
    def reasons(self) -> Sequence[Reason]:
        return [reason for outcome in self.outcomes for reason in outcome.reasons]

    @property
    def harmed(self) -> Sequence[Reason]:
        return [reason for outcome in self.outcomes for reason in outcome.harmed]

    @property
    def winners(self) -> Sequence[Outcome]:
        return [outcome for outcome in self.outcomes if outcome.is_winner]

    def _outcome(self, key: str) -> Outcome:
        described = [*self._guardrails(key)]
        harmed, undecided, silent = (
            [reason for reason in described if reason.code == code]
            for code in (ReasonCode.GUARDRAIL_HARMED, ReasonCode.GUARDRAIL_UNDECIDED, ReasonCode.GUARDRAIL_SILENT)
        )
        if self.primary is None:
            return Outcome(key, 0.0, NO_GOAL, harmed, undecided, silent)
        measure, comparison = self.inputs.measures[self.primary], _comparisons(self.measures[self.primary])[key]
        sign, is_within_minimum = _sign(measure, comparison), _is_within_minimum(self.inputs, comparison)
        return Outcome(
            key,
            _gain(measure, comparison),
            find(self.inputs, measure, key, comparison, is_worse=sign < 0, is_within_minimum=is_within_minimum),
            harmed,
            undecided,
            silent,
            is_better=sign > 0 and comparison.label == "better",
            is_worse=sign < 0,
            is_within_minimum=is_within_minimum,
        )

    def _guardrails(self, key: str) -> Iterator[Reason]:
        for measure, analysis in _guardrails(self.inputs, self.measures):
            variants = {variant.key: variant for variant in analysis.variants}
            if objection := describe_guardrail(self.inputs, measure, variants[key], _comparisons(analysis)[key]):
                yield objection


# the rules, in their order


def check_data(case: Case) -> Verdict | None:
    """Distrust data that a correct experiment hardly gives."""
    suspicions = [*_suspicions(case)]
    return Verdict(Decision.CHECK_DATA, None, suspicions) if suspicions else None


def reject_all(case: Case) -> Verdict | None:
    """Ship nothing if every treatment harms a guardrail or is worse, at any time and however rare conversions are."""
    if case.outcomes and all(outcome.is_rejected for outcome in case.outcomes):
        return Verdict(Decision.DO_NOT_SHIP, None, case.reasons)
    return None


def wait_for_a_goal(case: Case) -> Verdict | None:
    """Keep running without a goal or a treatment."""
    if case.primary is None:
        return Verdict(case.undecided, None, [*case.harmed, NO_GOAL])
    return None if case.outcomes else Verdict(case.undecided, None, [NO_TREATMENT])


def wait_for_users(case: Case) -> Verdict | None:
    """Keep running until a fixed analysis is read, enough users count, and the shortest run is over."""
    plan = case.inputs.design.plan
    if missing := [*_missing_for_reading(case)]:
        return Verdict(case.undecided, None, [*case.harmed, *missing])
    if shortages := [*_shortages(case)]:
        # A fixed analysis is not read again, so that waiting would not help.
        decision = Decision.INCONCLUSIVE if is_fixed_reading(plan) else case.undecided
        return Verdict(decision, None, [*case.harmed, *shortages])
    if days := describe_remaining(plan):
        return Verdict(case.undecided, None, [*case.harmed, *_not_harmed(case), days])
    return None


def ship_the_best(case: Case) -> Verdict | None:
    """Ship the best winner whose guardrails are all safe, and name what speaks against it."""
    safe = [winner for winner in case.winners if not winner.undecided]
    if not safe:
        return None
    best = max(safe, key=lambda winner: winner.gain)
    return Verdict(Decision.SHIP, best.variant, [*case.reasons, *_reservations(case, best)])


def wait_for_the_plan(case: Case) -> Verdict | None:
    """Keep running while a winner has an undecided guardrail, or the planned size is not reached."""
    assert case.primary is not None  # noqa: S101 (an earlier rule)
    is_waiting = any(winner.undecided for winner in case.winners)
    size = describe_size(case.inputs, case.primary)
    if is_waiting and case.inputs.design.plan.analysis == "sequential":
        return Verdict(case.undecided, None, case.reasons)
    if size is None:
        return Verdict(
            case.undecided, None, [*case.reasons, NO_PLAN] if case.inputs.design.is_running else case.reasons
        )
    return None if size.is_reached else Verdict(case.undecided, None, [*case.reasons, size.reason])


def end_without_difference(case: Case) -> Verdict | None:
    """At the planned size, end if every treatment is rejected or within the smallest effect of interest."""
    is_over = all(outcome.is_rejected or outcome.is_within_minimum for outcome in case.outcomes)
    return Verdict(Decision.NO_DIFFERENCE, None, [*case.reasons, *_size(case)]) if is_over else None


def end_without_result(case: Case) -> Verdict:
    """At the planned size, end without a result."""
    return Verdict(Decision.INCONCLUSIVE, None, [*case.reasons, *_size(case)])


RULES: Sequence[Callable[[Case], Verdict | None]] = (
    check_data,
    reject_all,
    wait_for_a_goal,
    wait_for_users,
    ship_the_best,
    wait_for_the_plan,
    end_without_difference,
    end_without_result,
)


# what the rules read


def _suspicions(case: Case) -> Iterator[Reason]:
    """Yield the reasons why the data cannot be trusted."""
    inputs, ratio = case.inputs, case.ratio
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
    yield from find_before(inputs, case.measures)
    yield from find_not_numbers(inputs)
    off = inputs.design.flag_off
    if off is not None and off.duration >= MAX_TIME_OFF:
        yield from find_flag_off(inputs.design)


def _missing_for_reading(case: Case) -> Iterator[Reason]:
    """Yield what a fixed analysis still lacks to be read."""
    inputs, primary = case.inputs, case.primary
    if primary is None or not is_unread(inputs.design.plan):
        return
    counted, planned = counted_users(inputs, primary), planned_users(inputs.design)
    missing = {key: users for key, users in planned.items() if counted[key] < users}
    for key, users in missing.items():
        has = f"{key} has {format_count(counted[key], inputs.measures[primary].user)}"
        message = f"{has} of the {users:,} that are planned; the results are read at that size."
        yield Reason(ReasonCode.PLANNED_SIZE, message)
    if days := describe_remaining(inputs.design.plan):
        yield days
    elif not missing:
        message = "The results are read when every variant has its planned number of users who count."
        yield describe_remaining(inputs.design.plan) or Reason(ReasonCode.PLANNED_SIZE, message)


def _shortages(case: Case) -> Iterator[Reason]:
    """Yield a reason for each variant that is too small to judge in the first goal."""
    assert case.primary is not None  # noqa: S101 (an earlier rule)
    comparisons = _comparisons(case.measures[case.primary])
    yield from dict.fromkeys(
        shortage for outcome in case.outcomes for shortage in comparisons[outcome.variant].shortages
    )


def _not_harmed(case: Case) -> Iterator[Reason]:
    for outcome in case.outcomes:
        yield from (reason for reason in outcome.reasons if reason not in outcome.harmed)


def _reservations(case: Case, best: Outcome) -> Iterator[Reason]:
    """Yield what speaks against shipping a winner, without forbidding it."""
    assert case.primary is not None  # noqa: S101 (an earlier rule)
    inputs = case.inputs
    for index, (measure, analysis) in enumerate(zip(inputs.measures, case.measures, strict=True)):
        comparison = _comparisons(analysis)[best.variant]
        if index != case.primary and measure.is_registered_goal and comparison.label == "worse":
            yield describe_worse_goal(inputs, measure, best.variant, comparison)
    others = [outcome.variant for outcome in case.outcomes if outcome is not best and not outcome.is_rejected]
    alike = [key for key in others if not case.are_distinct(best.variant, key)]
    if alike:
        yield describe_indistinguishable(inputs.measures[case.primary], best.variant, alike)
    if not is_fixed_reading(inputs.design.plan):  # where later users do not count
        yield from find_waiting(inputs)
    size = describe_size(inputs, case.primary)
    if size is not None and not size.is_reached:
        yield Reason(ReasonCode.PLAN_NOT_REACHED, size.reason.message)


def _size(case: Case) -> Iterator[Reason]:
    assert case.primary is not None  # noqa: S101 (an earlier rule)
    if size := describe_size(case.inputs, case.primary):
        yield size.reason


def _sign(measure: Measure, comparison: Comparison) -> int:
    """Return 1 if a treatment is better in the first goal, -1 if it is worse, and 0 otherwise.

    Before a fixed analysis is read, its always-valid test tells.
    """
    if isinstance(comparison.difference, Reason) or comparison.shortages:
        return 0
    test: Test = comparison.deciding(comparison.difference)
    return -test.sign if measure.is_decrease_good else test.sign


def _gain(measure: Measure, comparison: Comparison) -> float:
    difference = comparison.difference
    return gain(measure, difference.estimate) if isinstance(difference, Estimate) else 0.0


def _is_within_minimum(inputs: Inputs, comparison: Comparison) -> bool:
    minimum = inputs.design.plan.minimum_effect
    if minimum is None or isinstance(comparison.lift, Reason) or comparison.shortages:
        return False
    test = comparison.deciding(comparison.lift)
    return test.lower is not None and test.upper is not None and -minimum <= test.lower and test.upper <= minimum


def _guardrails(inputs: Inputs, measures: Sequence[MeasureAnalysis]) -> Iterator[tuple[Measure, MeasureAnalysis]]:
    """Yield the guardrails that were registered before the start."""
    for measure, analysis in zip(inputs.measures, measures, strict=True):
        if measure.is_guardrail and not measure.is_post_hoc:
            yield measure, analysis


def _comparisons(analysis: MeasureAnalysis) -> Mapping[str, Comparison]:
    return {variant.key: variant.comparison for variant in analysis.variants if variant.comparison}
