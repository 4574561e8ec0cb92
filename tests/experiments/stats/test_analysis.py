"""The whole analysis: its contents, and properties that hold for any sums."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, is_dataclass, replace
from enum import Enum

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.stats import effects, samples
from experiments.stats.analysis import SAME_VALUES, analyse, analyse_parts
from experiments.stats.multiplicity import holm
from experiments.stats.outcomes import Analysis
from experiments.stats.types import Design, Estimate, Inputs, Measure, Plan, Reason, ReasonCode, Sums, Weight
from tests.experiments.stats.sums import inputs, inputs_of, share, sums_of

FIXED = settings(derandomize=True, deadline=None, max_examples=300)
VALUES = st.sampled_from([0.0, 0.0, 1.0, 1.0, 0.1, 3.0, -2.5, 1e-100, 1e-320, 1e100, -1e100, 123456.789])
TAMER = st.sampled_from([0.0, 1.0, 2.0, 5.5, -3.0, 40.0])
KINDS = st.sampled_from(["share", "mean", "ratio"])


@st.composite
def variants_of_users(draw: st.DrawFn, kind: str, values: st.SearchStrategy[float]) -> Mapping[str, Sums]:
    return {key: draw(one_variant(kind, values)) for key in "abc"}


@st.composite
def one_variant(draw: st.DrawFn, kind: str, values: st.SearchStrategy[float]) -> Sums:
    """The sums over a few users, each counted many times."""
    values = st.sampled_from([0.0, 1.0]) if kind == "share" else values
    users = draw(st.lists(st.tuples(values, values, values), max_size=6))
    y, x, d = ([user[at] for user in users] for at in range(3))
    sums, times = sums_of(y, x, d), draw(st.sampled_from([1, 1, 1000, 2**20]))
    return Sums(*(number * times for number in astuple(sums)))


@st.composite
def any_inputs(draw: st.DrawFn, values: st.SearchStrategy[float] = VALUES) -> Inputs:
    kinds = draw(st.lists(KINDS, max_size=3))
    measures = [
        Measure(f"m{at}", kind, is_decrease_good=draw(st.booleans()), is_guardrail=draw(st.booleans()))
        for at, kind in enumerate(kinds)
    ]
    weights = draw(st.tuples(*[st.sampled_from([0, 1, 1, 2.5, 1e-300, 1e300])] * 3).filter(any))
    design = Design(
        [Weight(key, weight) for key, weight in zip("abc", weights, strict=True)],
        draw(st.sampled_from("abc")),
        draw(st.booleans()),
        correction=draw(st.sampled_from(["holm", "benjamini-hochberg"])),
    )
    users = {key: draw(st.sampled_from([0, 1, 200, 10**7])) for key in "abc"}
    sums = [draw(variants_of_users(kind, values)) for kind in kinds]
    return inputs_of(design, measures, sums, users, several=draw(st.integers(0, 3)))


def numbers(value: object) -> Iterator[float]:
    """Every number in an analysis."""
    if isinstance(value, float):
        assert type(value) is float  # what JSON can be made of, and not one of NumPy's
        yield value
    elif is_dataclass(value) and not isinstance(value, type):
        for name in value.__slots__:
            yield from numbers(getattr(value, name))
    elif isinstance(value, Mapping):
        yield from numbers(list(value.values()))
    elif isinstance(value, Sequence) and not isinstance(value, (str, Enum)):
        for number in value:
            yield from numbers(number)


@FIXED
@given(any_inputs())
def test_analyse__any_users_at_all__is_finite_numbers_or_reasons_and_values_within_their_intervals(given_inputs):
    analysis = analyse(given_inputs)
    assert all(map(math.isfinite, numbers(analysis)))
    assert analysis.verdict.reasons
    for variant in (variant for measure in analysis.measures for variant in measure.variants):
        if variant.interval:
            assert variant.interval.lower <= variant.value <= variant.interval.upper
        assert (variant.reason is None) == (variant.interval is not None)
        for estimate in estimates(variant.comparison):
            for test in (estimate.always_valid, estimate.fixed_horizon):
                assert test.lower is None or test.lower <= estimate.estimate
                assert test.upper is None or estimate.estimate <= test.upper
                assert 0 <= test.p_value <= 1
                assert (test.open is None) == (test.lower is not None and test.upper is not None)
        single_look = variant.comparison and variant.comparison.single_look
        if single_look and isinstance(single_look.chance_to_beat, float):
            assert 0 <= single_look.chance_to_beat <= 1
            assert single_look.expected_loss >= 0


def estimates(comparison: object) -> Iterator[Estimate]:
    if isinstance(comparison, Estimate):
        yield comparison
    elif is_dataclass(comparison):
        for name in comparison.__slots__:
            yield from estimates(getattr(comparison, name))


@FIXED
@given(any_inputs(TAMER), st.permutations(range(3)), st.sampled_from([0.25, 8.0, 2.0**40]), st.booleans())
def test_analyse__users_of_moderate_values__agrees_with_itself(given_inputs, order, factor, is_adjusted):
    analysis = analyse(given_inputs)
    check_another_order(analysis, given_inputs, order)
    check_another_unit(given_inputs, factor)
    check_intervals_and_p_values(analysis)
    adjusted = replace(given_inputs, design=replace(given_inputs.design, is_adjusted=is_adjusted))
    check_labels(analyse(adjusted), adjusted.measures)


def check_another_order(one: Analysis, given_inputs: Inputs, order: Sequence[int]) -> None:
    """Variants in another order are analysed the same."""
    design = given_inputs.design
    two = analyse(replace(given_inputs, design=replace(design, variants=[design.variants[at] for at in order])))
    for first, second in zip(one.measures, two.measures, strict=True):
        again = {variant.key: variant for variant in second.variants}
        for variant in first.variants:
            assert list(numbers(again[variant.key])) == pytest.approx(list(numbers(variant)), rel=1e-6, abs=1e-9)
    assert one.verdict.decision == two.verdict.decision
    assert Counter(reason.code for reason in one.verdict.reasons) == Counter(
        reason.code for reason in two.verdict.reasons
    )


def check_another_unit(given_inputs: Inputs, factor: float) -> None:
    """Values in another unit scale differences, and leave lifts and p-values."""
    means = replace(given_inputs, measures=[replace(measure, kind="mean") for measure in given_inputs.measures])
    [stratum] = means.strata
    sums = [{key: in_unit(of_variant, factor) for key, of_variant in sums.items()} for sums in stratum.sums]
    scaled = replace(means, strata=[replace(stratum, sums=sums)])
    for first, second in zip(analyse(means).measures, analyse(scaled).measures, strict=True):
        for before, after in zip(first.variants, second.variants, strict=True):
            if before.comparison is None:
                continue
            assert after.comparison.lift == before.comparison.lift
            assert after.comparison.single_look.chance_to_beat == before.comparison.single_look.chance_to_beat
            assert after.comparison.unadjusted_p == before.comparison.unadjusted_p
            if isinstance(before.comparison.difference, Estimate):
                one, two = before.comparison.difference, after.comparison.difference
                assert two.estimate == one.estimate * factor
                assert two.always_valid.p_value == one.always_valid.p_value
                assert two.fixed_horizon.upper == pytest.approx(one.fixed_horizon.upper * factor)


def in_unit(sums: Sums, factor: float) -> Sums:
    return replace(
        sums, y=sums.y * factor, yy=sums.yy * factor**2, yd=sums.yd * factor, x=sums.x * factor, xx=sums.xx * factor**2,
        xy=sums.xy * factor**2,
    )  # fmt: skip


def check_intervals_and_p_values(analysis: Analysis) -> None:
    """An interval excludes 0 where its p-value is below the level."""
    for variant in (variant for measure in analysis.measures for variant in measure.variants):
        for estimate in estimates(variant.comparison):
            for test in (estimate.always_valid, estimate.fixed_horizon):
                if abs(test.p_value - 0.05) > 1e-9 and test.open is None:
                    assert (test.p_value < 0.05) == (test.lower > 0 or test.upper < 0)


def check_labels(analysis: Analysis, metrics: Sequence[Measure]) -> None:
    """Label, interval and p-value of a row say the same."""
    for metric, measure in zip(metrics, analysis.measures, strict=True):
        for comparison in (variant.comparison for variant in measure.variants if variant.comparison):
            if isinstance(comparison.difference, Reason):
                assert comparison.label == "unclear"
                continue
            test = comparison.difference.always_valid
            sign = {"better": 1, "worse": -1, "unclear": 0}[comparison.label]
            assert abs(test.p_value - 0.05) < 1e-9 or (test.p_value < 0.05) == bool(test.sign)
            if comparison.shortages:
                assert comparison.label == "unclear"
            else:
                assert test.sign == (-sign if metric.is_decrease_good else sign)
            if isinstance(comparison.lift, Estimate) and comparison.lift.always_valid.open is None:
                assert comparison.lift.always_valid.sign == test.sign


def test_analyse__goals_and_guardrails__corrects_the_primary_one_and_the_others_as_two_families():
    goal, guardrail = Measure("signup", "share"), Measure("errors", "share", is_guardrail=True)
    sums = {"control": share(1000, 9000), "blue": share(1080, 9000), "red": share(1200, 9000)}
    other = {"control": share(300, 9000), "blue": share(390, 9000), "red": share(310, 9000)}
    others = [(Measure(key, "share"), other) for key in ("order", "visit")]
    analysis = analyse(inputs((goal, sums), (guardrail, sums), *others))
    first, middle, *last = (
        [variant.comparison for variant in measure.variants if variant.comparison] for measure in analysis.measures
    )
    for family in (first, [*last[0], *last[1]]):
        shown = [comparison.difference.always_valid.p_value for comparison in family]
        assert shown == holm([comparison.unadjusted_p for comparison in family])
        assert {comparison.family for comparison in family} == {len(family)}
    assert [comparison.family for comparison in middle] == [None, None]
    assert all(comparison.difference.always_valid.p_value == comparison.unadjusted_p for comparison in middle)


@pytest.mark.parametrize("correction", ["holm", "benjamini-hochberg"])
def test_analyse__family__is_the_same_before_all_of_its_tests_can_be_had(correction, subtests: pytest.Subtests) -> None:
    sums = {"control": share(1000, 9000), "treatment": share(1300, 9000)}
    primary, first, second = (Measure(key, "mean") for key in ("primary", "first", "second"))
    for name, others in {
        "nobody did it": (share(0, 9000), share(0, 9000)),
        "one did it": (share(1, 9000), share(0, 9000)),
        "nobody counts": (Sums(), Sums()),
        "a few do it": (share(10, 9000), share(5, 9000)),
        "few count, and differ": (share(0, 99), share(99, 99)),
        "it is alike": (share(500, 9000), share(500, 9000)),
    }.items():
        with subtests.test(name):
            given = inputs((primary, sums), (first, sums), (second, dict(zip(sums, others, strict=True))))
            [_, of_first, of_second] = analyse(
                replace(given, design=replace(given.design, correction=correction))
            ).measures
            row, last = of_first.variants[1].comparison, of_second.variants[1].comparison
            test = row.difference.always_valid
            assert (row.family, test.level, row.label) == (2, pytest.approx(0.975), "better")
            assert test.p_value == 2 * row.unadjusted_p
            assert last.label == "unclear"
            if isinstance(last.difference, Estimate):
                assert last.family == 2
                assert last.difference.always_valid.level == pytest.approx(0.975 if last.shortages else 0.95)


def test_analyse__family__has_treatments_with_weight_at_the_start_or_now():
    weights = {"control": 1, "blue": 1, "dropped": 0, "added": 1, "never": 0}
    at_start = [Weight("control", 1), Weight("blue", 1), Weight("dropped", 1)]
    design = Design([Weight(*variant) for variant in weights.items()], "control", True, plan=Plan(variants=at_start))
    sums = {"control": share(1000, 9000), "blue": share(1300, 9000)}
    users = {key: part.n for key, part in sums.items()}
    row = analyse(inputs_of(design, [Measure("signup", "share")], [sums], users)).measures[0].variants[1].comparison
    assert row.family == 3


def test_analyse__control_named__has_no_comparison_and_the_others_have_one():
    sums = {"a": share(100, 900), "b": share(108, 900), "c": share(120, 900)}
    variants = analyse(inputs((Measure("signup", "share"), sums), control="b")).measures[0].variants
    assert [variant.comparison is None for variant in variants] == [False, True, False]
    assert variants[0].comparison.difference.estimate == pytest.approx((100 - 108) / 900)


@pytest.mark.parametrize(
    ("sums", "expected"),
    [
        (Sums(), samples.NO_USERS),
        (sums_of([4.0]), effects.ONE_USER),
        (sums_of([4.0, 4.0, 4.0]), SAME_VALUES),
    ],
)
def test_analyse__mean_of_too_few_or_like_users__has_no_interval_and_says_why(sums, expected):
    [variant, _] = (
        analyse(inputs((Measure("orders", "mean"), {"control": sums, "treatment": sums}))).measures[0].variants
    )
    assert (variant.interval, variant.reason) == (None, expected)
    assert variant.value == (4.0 if sums.n else None)


def test_analyse__no_conversions_at_all__knows_a_chance_and_a_difference_but_no_lift():
    nothing = {"control": share(0, 50), "treatment": share(0, 50)}
    comparison = analyse(inputs((Measure("signup", "share"), nothing))).measures[0].variants[1].comparison
    assert comparison.single_look.chance_to_beat == pytest.approx(0.5)
    test = comparison.difference.always_valid
    assert (comparison.difference.estimate, test.p_value, test.lower) == (0, 1, pytest.approx(-test.upper))
    assert comparison.lift.code == ReasonCode.CONTROL_IS_ZERO


def test_analyse__nobody_exposed__is_reasons_throughout():
    analysis: Analysis = analyse(inputs((Measure("signup", "share"), {"control": Sums(), "treatment": Sums()})))
    comparison = analysis.measures[0].variants[1].comparison
    assert isinstance(analysis.sample_ratio, Reason)
    assert {comparison.difference, comparison.lift, comparison.single_look.chance_to_beat} == {samples.NO_USERS}
    assert [reason.code for reason in analysis.verdict.reasons] == [ReasonCode.TOO_FEW_USERS] * 2


def test_analyse__no_measures__is_the_sample_ratio_and_an_open_verdict():
    design = Design([Weight("a", 1), Weight("b", 1)], "a", True)
    analysis = analyse(inputs_of(design, [], [], {"a": 10, "b": 12}))
    assert (analysis.measures, analysis.sample_ratio.is_mismatch) == ([], False)
    assert analysis.verdict.reasons[0].code == ReasonCode.NO_GOAL


def test_analyse_parts__values_of_an_attribute__are_corrected_over_all_of_them():
    measure = Measure("signup", "share")
    parts = [
        inputs((measure, {"control": share(1000, 9000), "treatment": share(positive, 9000)}))
        for positive in (1000, 1140, 1300)
    ]
    rows = [measures[0].variants[1].comparison for measures in analyse_parts(parts)]
    assert [row.difference.always_valid.p_value for row in rows] == holm([row.unadjusted_p for row in rows])
    assert [row.family for row in rows] == [3, 3, 3]
    assert [row.label for row in rows] == ["unclear", "unclear", "better"]
    alone = analyse(parts[1]).measures[0].variants[1].comparison
    assert alone.label == "better"  # by itself
    assert analyse_parts([]) == []
