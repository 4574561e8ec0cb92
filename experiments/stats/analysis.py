"""The whole analysis of an experiment: from the sums over its users to every number of its results."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from experiments.stats import bayes, cuped, effects, intervals, multiplicity, sample_ratio
from experiments.stats.samples import OUT_OF_RANGE, Sample, summarise
from experiments.stats.types import (
    Analysis,
    Comparison,
    Cuped,
    Design,
    Estimate,
    Inputs,
    Interval,
    Measure,
    MeasureAnalysis,
    Reason,
    Split,
    Sums,
    VariantEstimate,
)
from experiments.stats.verdict import decide, find_harmed

NOBODY = Sums()


def analyse(inputs: Inputs) -> Analysis:
    """Analyse every measure in every variant, check the sample ratio and the guardrails, and decide.

    Every number in the answer is finite; a `Reason` takes the place of a number that cannot be
    computed. The control must be one of the design's variants.
    """
    analyses = [
        _analyse_measure(measure, sums, inputs.design)
        for measure, sums in zip(inputs.measures, inputs.sums, strict=True)
    ]
    measures = _adjust(inputs, analyses)
    ratio = sample_ratio.check_phases(inputs.splits or [Split(inputs.design.variants, inputs.users)])
    return Analysis(measures, ratio, find_harmed(inputs, measures), decide(inputs, measures, ratio))


def _analyse_measure(measure: Measure, given: Mapping[str, Sums], design: Design) -> MeasureAnalysis:
    sums = {variant.key: given.get(variant.key, NOBODY) for variant in design.variants}
    control = sums[design.control]
    against = _Control(measure, design, control, summarise(measure.kind, control), cuped.adjust(measure.kind, sums))
    return MeasureAnalysis(measure.key, [_estimate(key, of_variant, against) for key, of_variant in sums.items()])


@dataclass(frozen=True, slots=True)
class _Control:
    """The control's side of every comparison of one measure."""

    measure: Measure
    design: Design
    sums: Sums
    sample: Sample | Reason
    adjustment: cuped.Adjustment | Reason


def _estimate(key: str, sums: Sums, against: _Control) -> VariantEstimate:
    sample = summarise(against.measure.kind, sums)
    comparison = None if key == against.design.control else _compare(key, sums, sample, against)
    if isinstance(sample, Reason):
        return VariantEstimate(key, sums.n, None, None, sample, comparison)
    interval = _interval(sample, sums, against)
    if isinstance(interval, Reason):
        return VariantEstimate(key, sums.n, sample.mean, None, interval, comparison)
    return VariantEstimate(key, sums.n, sample.mean, interval, None, comparison)


def _interval(sample: Sample, sums: Sums, against: _Control) -> Interval | Reason:
    alpha = against.design.alpha
    if against.measure.kind == "share":
        return intervals.wilson(sums.y, sums.n, alpha)
    if sample.n < 2:
        return effects.ONE_USER
    if sample.variance == 0:
        return effects.NO_VARIANCE
    interval = intervals.student(sample.mean, math.sqrt(sample.squared_error), sample.n, alpha)
    return interval if math.isfinite(interval.lower) and math.isfinite(interval.upper) else OUT_OF_RANGE


def _compare(key: str, sums: Sums, sample: Sample | Reason, against: _Control) -> Comparison:
    control = against.sample
    if isinstance(sample, Reason):
        return _nothing(sample)
    if isinstance(control, Reason):
        return _nothing(control)
    difference = effects.difference(sample, control, against.design)
    choice = _choose(sums, difference, against)
    return Comparison(
        difference,
        effects.lift(sample, control, against.design),
        choice if isinstance(choice, Reason) else choice.chance_to_beat,
        choice if isinstance(choice, Reason) else choice.expected_loss,
        _compare_adjusted(key, against),
    )


def _nothing(reason: Reason) -> Comparison:
    return Comparison(reason, reason, reason, reason, reason)


def _choose(sums: Sums, difference: Estimate | Reason, against: _Control) -> bayes.Choice | Reason:
    is_decrease_good = against.measure.is_decrease_good
    if against.measure.kind == "share":
        treatment = bayes.Beta.after(sums.y, sums.n)
        control = bayes.Beta.after(against.sums.y, against.sums.n)
        return bayes.choose_share(treatment, control, is_decrease_good=is_decrease_good)
    if isinstance(difference, Reason):
        return difference
    return bayes.choose_mean(difference.estimate, difference.standard_error, is_decrease_good=is_decrease_good)


def _compare_adjusted(key: str, against: _Control) -> Cuped | Reason:
    adjustment = against.adjustment
    if isinstance(adjustment, Reason):
        return adjustment
    treatment, control = adjustment.samples[key], adjustment.samples[against.design.control]
    difference = effects.difference(treatment, control, against.design)
    if isinstance(difference, Reason):
        return difference
    lift = effects.lift(treatment, control, against.design)
    return Cuped(adjustment.theta, adjustment.variance_reduction, treatment.mean, difference, lift)


def _adjust(inputs: Inputs, analyses: Sequence[MeasureAnalysis]) -> Sequence[MeasureAnalysis]:
    """Adjust the p-values of all registered goals and treatments as one family."""
    family = [
        (measure.key, variant.key, variant.comparison.difference.always_valid.p_value)
        for given, measure in zip(inputs.measures, analyses, strict=True)
        for variant in measure.variants
        if given.is_registered_goal and variant.comparison and isinstance(variant.comparison.difference, Estimate)
    ]
    adjusted = multiplicity.adjust([p for _, _, p in family], inputs.design.correction)
    by_comparison = {(measure, variant): p for (measure, variant, _), p in zip(family, adjusted, strict=True)}
    return [
        replace(
            measure,
            variants=[_with_p(variant, by_comparison.get((measure.key, variant.key))) for variant in measure.variants],
        )
        for measure in analyses
    ]


def _with_p(variant: VariantEstimate, adjusted: float | None) -> VariantEstimate:
    if adjusted is None or variant.comparison is None:
        return variant
    return replace(variant, comparison=replace(variant.comparison, adjusted_p=adjusted))
