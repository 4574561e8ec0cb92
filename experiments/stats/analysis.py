"""The whole analysis of an experiment: from the sums over its users to every figure of its results."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial

from experiments.stats import bayes, effects, guardrails, intervals, multiplicity, sample_ratio
from experiments.stats.boundaries import Boundary, Planned
from experiments.stats.cuped import DIFFERENT_BEFORE, NOT_REGISTERED
from experiments.stats.effects import Contrast, Levels
from experiments.stats.findings import is_suspicious
from experiments.stats.outcomes import Analysis, MeasureAnalysis
from experiments.stats.plans import (
    PlannedPair,
    is_fixed_reading,
    is_unread,
    planned_pair,
    primary_index,
    weighted_keys,
)
from experiments.stats.samples import OUT_OF_RANGE, Sample
from experiments.stats.shortages import MIN_USERS, find_shortages
from experiments.stats.strata import NOBODY, Arms, ComparisonGroup, group_variants, share_of_plan
from experiments.stats.types import (
    Basis,
    Comparison,
    Cuped,
    Design,
    Estimate,
    Inputs,
    Interval,
    Kept,
    Label,
    Measure,
    Quantile,
    Reason,
    ReasonCode,
    SingleLook,
    Split,
    Sums,
    Test,
    VariantEstimate,
    name_phases,
)
from experiments.stats.verdict import decide, find_harmed

SAME_VALUES = Reason(
    ReasonCode.NO_VARIANCE, "All users of this variant have the same value, so its uncertainty cannot be estimated."
)


def analyse(inputs: Inputs, *, is_exact: bool = True) -> Analysis:
    """Analyse every measure in every variant, check the sample ratio and the guardrails, and decide.

    All figures in the answer are finite. A `Reason` takes the place of a figure that cannot be computed. The control
    must be a variant of the design. Without `is_exact`, chances to beat the control in shares come from the normal
    distribution, which halves the time.
    """
    measures = analyse_measures(inputs, range(len(inputs.measures)), is_exact=is_exact)
    splits = inputs.splits or [Split(stratum.variants, stratum.users) for stratum in inputs.strata]
    ratio = sample_ratio.check_phases(splits, is_single_look=is_fixed_reading(inputs.design.plan))
    return Analysis(
        measures, ratio, find_harmed(inputs, measures), decide(inputs, measures, ratio, partial(_are_distinct, inputs))
    )


def _are_distinct(inputs: Inputs, first: str, second: str) -> bool:
    """Return whether the first goal shows a difference between two treatments, at the level of a single test."""
    primary = primary_index(inputs)
    assert primary is not None  # noqa: S101 (there is a winner)
    design = _without_boundary(replace(inputs.design, control=second))
    contrast = _compare(replace(inputs, design=design), primary, is_fixed=False).variants[first].contrast
    return isinstance(contrast, Contrast) and contrast.always_valid_p < design.alpha


def _without_boundary(design: Design) -> Design:
    return replace(design, plan=replace(design.plan, sets_boundary=False))


def analyse_measures(inputs: Inputs, indexes: Collection[int], *, is_exact: bool) -> list[MeasureAnalysis]:
    """Analyse the measures at these indexes as `analyse` does. The tests of the others take part in the correction."""
    is_fixed, waits = is_fixed_reading(inputs.design.plan), is_unread(inputs.design.plan)
    compared = [_compare(inputs, index, is_fixed=is_fixed) for index in range(len(inputs.measures))]
    corrections = _correct(inputs.design, [compared], primary_index(inputs))
    chosen = [_analyse_measure(compared[index], corrections[0], is_exact=is_exact) for index in indexes]
    if not waits:
        return chosen
    # Guardrails do not wait.
    return [
        analysis if inputs.measures[index].is_guardrail else _without_labels(analysis)
        for index, analysis in zip(indexes, chosen, strict=True)
    ]


def _without_labels(analysis: MeasureAnalysis) -> MeasureAnalysis:
    """Remove the labels of an unread fixed analysis, because its verdict will not rest on these figures."""
    return replace(analysis, variants=[_unlabelled(variant) for variant in analysis.variants])


def _unlabelled(variant: VariantEstimate) -> VariantEstimate:
    comparison, raw = variant.comparison, variant.raw
    unlabelled = comparison and replace(comparison, label="unread")
    return replace(variant, comparison=unlabelled, raw=raw and _unlabelled(raw))


def analyse_parts(parts: Sequence[Inputs]) -> Sequence[Sequence[MeasureAnalysis]]:
    """Analyse parts of the users, such as those with one value of an attribute.

    All parts have the same design and measures. The tests are always-valid, and corrected over all parts together. The
    plan is about all users, so it sets no boundary for their parts.
    """
    parts = [replace(part, design=_without_boundary(part.design)) for part in parts]
    compared = [[_compare(part, index, is_fixed=False) for index in range(len(part.measures))] for part in parts]
    if not compared:
        return []
    corrections = _correct(parts[0].design, compared, primary_index(parts[0]))
    return [
        [_analyse_measure(of_measure, of_part, is_exact=True) for of_measure in measures]
        for measures, of_part in zip(compared, corrections, strict=True)
    ]


def uncorrected_effects(
    inputs: Inputs, index: int, *, is_adjusted: bool
) -> Mapping[str, tuple[Estimate | Reason, Estimate | Reason]]:
    """Return the difference and the lift of a measure by treatment, without correction for other tests.

    They are reasons if values are to be adjusted but cannot be.
    """
    design = replace(inputs.design, is_adjusted=is_adjusted)
    compared = _compare(replace(inputs, design=design), index, is_fixed=False)
    effects_of: dict[str, tuple[Estimate | Reason, Estimate | Reason]] = {}
    for key, sides in compared.variants.items():
        cause = sides.group.strata.cuped if is_adjusted else None
        if isinstance(cause, Reason):
            effects_of[key] = cause, cause
        elif isinstance(sides.contrast, Reason):
            effects_of[key] = sides.contrast, sides.contrast
        else:
            effects_of[key] = _effects(compared, sides.contrast, effects.uncorrected(sides.contrast, design))
    return {key: effect for key, effect in effects_of.items() if key != design.control}


@dataclass(frozen=True, slots=True)
class _KeptLook:
    """The look at the planned size of a variant and the control, which is in the past."""

    instant: datetime
    group: ComparisonGroup
    boundary: Boundary


@dataclass(frozen=True, slots=True)
class _Looks:
    """The boundary of today's always-valid test, by default that of the mixture, and the kept look if there is one."""

    boundary: Boundary | None = None
    kept: _KeptLook | None = None


@dataclass(frozen=True, slots=True)
class _Sides:
    """A variant and the control: the group in which they are compared, how, their contrast, and what they lack."""

    group: ComparisonGroup
    arms: Arms
    looks: _Looks
    contrast: Contrast | Reason
    shortages: Sequence[Reason] = ()


@dataclass(frozen=True, slots=True)
class _Compared:
    """A measure with each variant compared with the control, before the correction."""

    index: int
    measure: Measure
    design: Design
    is_fixed: bool
    variants: Mapping[str, _Sides]
    users: Mapping[str, int]
    phases: Sequence[Sequence[int]]
    """The numbers of the phases of each stratum."""
    left_out: Mapping[str, Sequence[int]]
    before: Mapping[str, Estimate | Reason]
    is_adjusted: bool
    controls: dict[int, VariantEstimate] = field(default_factory=dict)  # by the id of their arms


@dataclass(frozen=True, slots=True)
class _Correction:
    """What the correction makes of a test: alpha and p-value by kind of test, and the number of tests in the family."""

    always_valid: tuple[float, float]
    fixed_horizon: tuple[float, float]
    family: int


_Corrections = Mapping[tuple[int, str], _Correction]


def _compare(inputs: Inputs, index: int, *, is_fixed: bool) -> _Compared:
    design, measure = inputs.design, inputs.measures[index]
    strata = [stratum.sums[index] for stratum in inputs.strata]
    keys = [variant.key for variant in design.variants]
    treatments = [key for key in keys if key != design.control]
    groups = group_variants(measure, strata, design.control, treatments)
    before = {key: _before(groups[key], key, measure, design) for key in treatments}
    is_adjusted = design.is_adjusted and not any(map(is_suspicious, before.values()))
    return _Compared(
        index,
        measure,
        design,
        is_fixed and not measure.is_guardrail,
        variants={key: _sides(inputs, index, groups[key], key, is_adjusted=is_adjusted) for key in keys},
        users={key: sum(stratum.get(key, NOBODY).n for stratum in strata) for key in keys},
        phases=[stratum.phases for stratum in inputs.strata],
        left_out={key: _left_out(inputs, index, (design.control, key), groups[key].indexes) for key in treatments},
        before=before,
        is_adjusted=is_adjusted,
    )


def _left_out(inputs: Inputs, index: int, pair: tuple[str, str], used: Sequence[int]) -> Sequence[int]:
    """Return the strata in which both variants took part, but one has too few users to compare."""
    left_out = []
    for number, stratum in enumerate(inputs.strata):
        weights = {variant.key: variant.weight for variant in stratum.variants}
        users = {key: stratum.sums[index].get(key, NOBODY).n for key in pair}
        took_part = all(weights.get(key) or users[key] for key in pair)
        if number not in used and took_part and any(users.values()):
            left_out.append(number)
    return left_out


def _sides(inputs: Inputs, index: int, group: ComparisonGroup, key: str, *, is_adjusted: bool) -> _Sides:
    measure, looks = inputs.measures[index], _looks(inputs, index, group, key)
    arms = (group.strata.adjusted if is_adjusted else None) or group.strata.raw
    shortages = _find_shortages(inputs, measure, group, key)
    contrast = _contrast_of_looks(looks, arms, key, measure, inputs.design)
    return _Sides(group, arms, looks, contrast, shortages)


def _looks(inputs: Inputs, index: int, group: ComparisonGroup, key: str) -> _Looks:
    """Return the boundaries that the plan sets for a comparison, if it sets any."""
    design, measure = inputs.design, inputs.measures[index]
    pair = None if key == design.control else planned_pair(design, measure, key)
    share = pair and share_of_plan(pair, group, inputs.strata, (key, design.control))
    if pair is None or not share:
        return _Looks()
    boundary = _boundary(pair, group, (key, design.control), share if share <= 1 else None, design)
    reading = inputs.kept.get((index, key)) if share > 1 else None
    if reading is None:
        return _Looks(boundary)
    sums = [stratum.sums[0] for stratum in reading.strata]
    treatments = [variant.key for variant in design.variants if variant.key != design.control]
    then = group_variants(measure, sums, design.control, treatments)[key]
    of_then = share_of_plan(pair, then, reading.strata, (key, design.control))
    if not of_then or find_shortages(measure, then.strata.strata, (key, design.control), where=""):
        return _Looks(boundary)
    kept = _boundary(pair, then, (key, design.control), min(of_then, 1.0), design)
    return _Looks(boundary, _KeptLook(reading.instant, then, kept))


def _boundary(
    pair: PlannedPair, group: ComparisonGroup, keys: tuple[str, str], share: float | None, design: Design
) -> Boundary:
    return Planned.at(share, sum(map(group.users, keys)), pair.users, design.alpha)


def _contrast_of_looks(looks: _Looks, arms: Arms, key: str, measure: Measure, design: Design) -> Contrast | Reason:
    today = _contrast(arms, key, measure, design, looks.boundary)
    if looks.kept is None or isinstance(today, Reason):
        return today
    strata = looks.kept.group.strata
    of_then = (strata.adjusted if arms.is_adjusted else None) or strata.raw
    then = _contrast(of_then, key, measure, design, looks.kept.boundary)
    return today if isinstance(then, Reason) else effects.with_kept(today, then, design.alpha)


def _contrast(
    arms: Arms, key: str, measure: Measure, design: Design, boundary: Boundary | None = None
) -> Contrast | Reason:
    pair = arms.pair(key, design.control, is_non_negative=_is_non_negative(measure))
    treatment, control = arms.of(key), arms.of(design.control)
    if isinstance(pair, Reason) or isinstance(treatment, Reason) or isinstance(control, Reason):
        return pair if isinstance(pair, Reason) else arms.missing
    return effects.contrast(pair, treatment, control, design, arms.shared, boundary)


def _is_non_negative(measure: Measure) -> bool:
    return measure.is_non_negative or measure.kind == "share"


def _correct(design: Design, parts: Sequence[Sequence[_Compared]], primary: int | None) -> Sequence[_Corrections]:
    """Correct the primary metric over its treatments as one family, and all other goals as another.

    A family has every treatment that gets users, also while a test is missing: if it grew as tests come in, a
    correction over several looks would not hold.
    """
    treatments = [key for key in weighted_keys(design) if key != design.control]
    tests = [
        (part, of_measure.index, key, sides)
        for part, measures in enumerate(parts)
        for of_measure in measures
        if of_measure.measure.is_registered_goal
        for key, sides in of_measure.variants.items()
        if key in treatments or (key != design.control and isinstance(sides.contrast, Contrast))
    ]
    corrections: list[dict[tuple[int, str], _Correction]] = [{} for _ in parts]
    for family in ([test for test in tests if (test[1] == primary) == is_primary] for is_primary in (True, False)):
        contrasts = [sides.contrast for *_, sides in family]
        can_reject = [not sides.shortages for *_, sides in family]
        always_valid = _levels(design, [_p(one, lambda test: test.always_valid_p) for one in contrasts], can_reject)
        fixed_horizon = _levels(design, [_p(one, lambda test: test.fixed_horizon_p) for one in contrasts], can_reject)
        for (part, index, key, _), valid, fixed in zip(family, always_valid, fixed_horizon, strict=True):
            corrections[part][index, key] = _Correction(valid, fixed, len(family))
    return corrections


def _p(contrast: Contrast | Reason, select: Callable[[Contrast], float]) -> float:
    return 1.0 if isinstance(contrast, Reason) else select(contrast)


def _levels(design: Design, p_values: Sequence[float], can_reject: Sequence[bool]) -> Sequence[tuple[float, float]]:
    """Return the alpha and the adjusted p-value of each test of a family.

    A test of too few users rejects nothing, so it must not ease the steps of the others, and has the level of the
    whole family itself (Bonferroni).
    """
    total = len(p_values)
    counted = [p if can else 1.0 for p, can in zip(p_values, can_reject, strict=True)]
    alphas = multiplicity.alphas(counted, design.correction, design.alpha)
    adjusted = multiplicity.adjust(counted, design.correction)
    return [
        (alpha, after) if can else (design.alpha / total, min(1.0, total * p))
        for p, can, alpha, after in zip(p_values, can_reject, alphas, adjusted, strict=True)
    ]


def _analyse_measure(compared: _Compared, corrections: _Corrections, *, is_exact: bool) -> MeasureAnalysis:
    variants = [
        _estimate(compared, key, corrections.get((compared.index, key)), is_exact=is_exact) for key in compared.variants
    ]
    return MeasureAnalysis(compared.measure.key, variants, compared.before, compared.left_out)


def _estimate(compared: _Compared, key: str, correction: _Correction | None, *, is_exact: bool) -> VariantEstimate:
    sides, users = compared.variants[key], compared.users[key]
    is_control = key == compared.design.control
    comparison = None if is_control else _comparison(compared, sides, key, correction, is_exact=is_exact)
    raw_arms = sides.group.strata.raw
    if sides.arms is raw_arms:
        return _variant(compared, sides.arms, key, users, comparison)
    raw_contrast = _contrast_of_looks(sides.looks, raw_arms, key, compared.measure, compared.design)
    raw = replace(sides, arms=raw_arms, contrast=raw_contrast)
    raw_comparison = None if is_control else _comparison(compared, raw, key, None, is_exact=False)
    of_raw = _variant(compared, raw_arms, key, users, raw_comparison)
    return _variant(compared, sides.arms, key, users, comparison, of_raw)


def _variant(
    compared: _Compared,
    arms: Arms,
    key: str,
    users: int,
    comparison: Comparison | None = None,
    raw: VariantEstimate | None = None,
) -> VariantEstimate:
    sample = arms.of(key)
    if isinstance(sample, Reason):
        return VariantEstimate(key, users, None, None, sample, comparison, raw)
    interval = _interval(compared, arms, key, sample)
    if isinstance(interval, Reason):
        return VariantEstimate(key, users, sample.mean, None, interval, comparison, raw)
    return VariantEstimate(key, users, sample.mean, interval, None, comparison, raw)


def _interval(compared: _Compared, arms: Arms, key: str, sample: Sample) -> Interval | Reason:
    alpha, sums = compared.design.alpha, arms.sums[key] if arms.sums else None
    is_share = compared.measure.kind == "share"
    if is_share and isinstance(sums, Sums):
        return intervals.wilson(sums.y, sums.n, alpha)
    if sample.n < 2:
        return effects.ONE_USER
    if sample.unknown:
        return sample.unknown
    if sample.variance == 0:
        return SAME_VALUES
    error = math.sqrt(sample.squared_error + arms.shared)
    if is_share:
        interval = intervals.normal_share(sample.mean, error, alpha)
    else:
        interval = intervals.student(sample.mean, error, sample.freedom, alpha)
    return interval if math.isfinite(interval.lower) and math.isfinite(interval.upper) else OUT_OF_RANGE


def _comparison(
    compared: _Compared, sides: _Sides, key: str, correction: _Correction | None, *, is_exact: bool
) -> Comparison:
    measure, design, contrast, strata = compared.measure, compared.design, sides.contrast, sides.group.strata
    basis = _basis(compared, sides, key)
    cuped = strata.cuped if compared.is_adjusted else DIFFERENT_BEFORE if design.is_adjusted else NOT_REGISTERED
    shortages = sides.shortages
    choice = _choose(compared, sides, key, is_exact=is_exact)
    if isinstance(contrast, Reason):
        comparison = _untested(compared, basis, contrast, cuped, choice)
    else:
        comparison = _tested(compared, basis, contrast, correction, cuped, choice)
    label: Label = "unclear" if shortages else comparison.label
    kept = _describe_kept(sides, comparison, (key, design.control))
    comparison = replace(comparison, shortages=shortages, label=label, kept=kept)
    if not measure.is_guardrail:
        return comparison
    of_arms = sides.arms.of(key), sides.arms.of(design.control)
    is_silent = _is_silent(strata.strata, key, design.control)
    both = guardrails.GuardrailSides(*of_arms, contrast, is_silent, strata.strata, (key, design.control))
    return replace(comparison, guardrail=guardrails.judge(measure, both, comparison, design))


def _describe_kept(sides: _Sides, comparison: Comparison, keys: tuple[str, str]) -> Kept | None:
    look, contrast, difference = sides.looks.kept, sides.contrast, comparison.difference
    if look is None or isinstance(contrast, Reason) or contrast.kept is None or isinstance(difference, Reason):
        return None
    users = sum(map(look.group.users, keys))
    return Kept(look.instant, users, difference.today is not None, contrast.is_contradicted)


def _find_shortages(inputs: Inputs, measure: Measure, group: ComparisonGroup, key: str) -> Sequence[Reason]:
    control = inputs.design.control
    if key == control:
        return ()
    if not group.indexes:
        message = f"In no phase do both {control} and {key} have 2 users; a verdict needs {MIN_USERS} in each."
        return [Reason(ReasonCode.TOO_FEW_USERS, message)]
    used = sorted(phase for index in group.indexes for phase in inputs.strata[index].phases)
    where = f" in {name_phases(used)}" if len(group.indexes) < len(inputs.strata) else ""
    return find_shortages(measure, group.strata.strata, (control, key), where=where)


def _basis(compared: _Compared, sides: _Sides, key: str) -> Basis:
    control, group = compared.design.control, sides.group
    phases = sorted(phase for index in group.indexes for phase in compared.phases[index])
    estimate = compared.controls.get(id(sides.arms))
    if estimate is None:
        estimate = compared.controls[id(sides.arms)] = _variant(compared, sides.arms, control, group.users(control))
    return Basis(group.indexes, phases, group.users(key), estimate)


def _untested(
    compared: _Compared, basis: Basis, reason: Reason, cuped: Cuped | Reason, choice: bayes.Choice | Reason
) -> Comparison:
    single_look = _single_look(choice, reason, reason)
    return Comparison(basis, reason, reason, "unclear", None, None, single_look, cuped, is_fixed=compared.is_fixed)


def _tested(
    compared: _Compared,
    basis: Basis,
    contrast: Contrast,
    correction: _Correction | None,
    cuped: Cuped | Reason,
    choice: bayes.Choice | Reason,
) -> Comparison:
    design, is_fixed = compared.design, compared.is_fixed
    levels = Levels(
        effects.always_valid_level(contrast, design, correction.always_valid if correction else None),
        effects.fixed_horizon_level(contrast, design, correction.fixed_horizon if correction and is_fixed else None),
    )
    difference, lift = _effects(compared, contrast, levels)
    if isinstance(difference, Reason):
        return _untested(compared, basis, difference, cuped, choice)
    is_corrected = is_fixed and correction and correction.family > 1
    alone = _effects(compared, contrast, effects.uncorrected(contrast, design)) if is_corrected else (difference, lift)
    return Comparison(
        basis,
        difference,
        lift,
        _label(compared.measure, difference.fixed_horizon if is_fixed else difference.always_valid),
        contrast.fixed_horizon_p if is_fixed else contrast.always_valid_p,
        correction.family if correction else None,
        _single_look(choice, *(effect if isinstance(effect, Reason) else effect.fixed_horizon for effect in alone)),
        cuped,
        is_fixed=is_fixed,
        log_e_value=effects.log_e_value(contrast, design),
    )


def _single_look(choice: bayes.Choice | Reason, difference: Test | Reason, lift: Test | Reason) -> SingleLook:
    if isinstance(choice, Reason):
        return SingleLook(choice, choice, difference, lift)
    return SingleLook(choice.chance_to_beat, choice.expected_loss, difference, lift)


def _effects(compared: _Compared, contrast: Contrast, levels: Levels) -> tuple[Estimate | Reason, Estimate | Reason]:
    difference = effects.difference(contrast, levels)
    if isinstance(difference, Reason):
        return difference, difference
    is_non_negative = _is_non_negative(compared.measure)
    return difference, effects.lift(contrast, levels, difference, is_non_negative=is_non_negative)


def _label(measure: Measure, test: Test) -> Label:
    if test.sign == 0:
        return "unclear"
    return "better" if (test.sign < 0) == measure.is_decrease_good else "worse"


def _choose(compared: _Compared, sides: _Sides, key: str, *, is_exact: bool) -> bayes.Choice | Reason:
    measure, design, contrast = compared.measure, compared.design, sides.contrast
    sums = sides.arms.sums or {}
    treatment, control = sums.get(key), sums.get(design.control)
    if is_exact and measure.kind == "share" and isinstance(treatment, Sums) and isinstance(control, Sums):
        if not treatment.n or not control.n:
            return contrast if isinstance(contrast, Reason) else OUT_OF_RANGE
        posteriors = bayes.Beta.after(treatment.y, treatment.n), bayes.Beta.after(control.y, control.n)
        return bayes.choose_share(*posteriors, is_decrease_good=measure.is_decrease_good)
    if isinstance(contrast, Reason):
        return contrast
    return bayes.choose_mean(contrast.difference, contrast.error, is_decrease_good=measure.is_decrease_good)


def _before(group: ComparisonGroup, key: str, measure: Measure, design: Design) -> Estimate | Reason:
    """Return the difference from the control before the exposure, when no variant could have an effect."""
    arms = group.strata.before
    if isinstance(arms, Reason):
        return arms
    contrast = _contrast(arms, key, measure, design)
    if isinstance(contrast, Reason):
        return contrast
    return effects.difference(contrast, effects.uncorrected(contrast, design))


def _is_silent(strata: Sequence[Mapping[str, Sums | Quantile]], key: str, control: str) -> bool:
    """Return whether both variants have users, of whom none did what the measure counts. Then there can be no harm."""
    both = [[stratum[variant] for stratum in strata if variant in stratum] for variant in (key, control)]
    has_users = all(sum(sums.n for sums in of_variant) > 1 for of_variant in both)
    return has_users and not any(map(any, (map(_has_events, of_variant) for of_variant in both))) and _is_alike(both)


def _has_events(sums: Sums | Quantile) -> bool:
    return sums.events > 0 if isinstance(sums, Quantile) else bool(sums.y or sums.yy)


def _is_alike(both: Sequence[Sequence[Sums | Quantile]]) -> bool:
    """Return whether both or neither of the variants have a denominator."""
    first, second = (any(isinstance(sums, Sums) and sums.d for sums in of_variant) for of_variant in both)
    return first == second
