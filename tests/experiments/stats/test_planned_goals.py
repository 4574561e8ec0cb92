"""Rows whose boundary follows from the plan: which they are, and what becomes of them past the planned size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from experiments.stats.analysis import analyse, analyse_parts
from experiments.stats.boundaries import Mixture, Planned
from experiments.stats.types import (
    Comparison,
    Design,
    Estimate,
    Inputs,
    KeptReading,
    Measure,
    Plan,
    Split,
    Stratum,
    Sums,
    Weight,
)
from experiments.stats.types import (
    Test as TwoSided,
)
from tests.experiments.stats.sums import inputs, share

SIGNUP = Measure("signup", "share", counts_mature_users=True)
THEN = datetime(2026, 11, 1, tzinfo=UTC)
PLAN = Plan(size=20_000)
Values = Mapping[str, Sums]


def values(control: int, treatment: int, users: int) -> Values:
    return {"control": share(control, users), "treatment": share(treatment, users)}


def with_kept(of_today: Inputs, then: Values) -> Inputs:
    strata = [Stratum(of_today.design.variants, {}, [then])]
    return replace(of_today, kept={(0, "treatment"): KeptReading(THEN, strata)})


def row_of(of_today: Inputs) -> Comparison:
    comparison = analyse(of_today).measures[0].variants[1].comparison
    assert comparison is not None
    return comparison


def always_valid(comparison: Comparison) -> TwoSided:
    assert isinstance(comparison.difference, Estimate)
    return comparison.difference.always_valid


def z_of(test: TwoSided, boundary: Mixture | Planned) -> float:
    """The distance of an estimate whose p-value is that of the boundary, which is found by halving."""
    low, high = 0.0, 30.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if boundary.p_value(middle) > test.p_value else (low, middle)
    return high


def score(first: Sums, second: Sums) -> float:
    """The z of two shares with the pooled variance and the factor N / (N - 1)."""
    users = first.n + second.n
    pooled = (first.y + second.y) / users
    variance = pooled * (1 - pooled) * (1 / first.n + 1 / second.n) * users / (users - 1)
    return (second.y / second.n - first.y / first.n) / variance**0.5


def test_goal_with_a_window__planned__has_the_boundary_of_its_plan() -> None:
    sums = values(500, 575, 5_000)
    test = always_valid(row_of(inputs((SIGNUP, sums), plan=PLAN)))
    expected = Planned.at(0.5, 10_000, 20_000, 0.05)
    assert test.p_value == pytest.approx(expected.p_value(score(*sums.values())), rel=1e-9)
    assert test.sign == 0


@pytest.mark.parametrize(
    ("measure", "plan"),
    [
        (replace(SIGNUP, counts_mature_users=False), PLAN),
        (replace(SIGNUP, is_guardrail=True), PLAN),
        (replace(SIGNUP, is_post_hoc=True), PLAN),
        (SIGNUP, Plan()),
        (SIGNUP, replace(PLAN, analysis="fixed")),
        (SIGNUP, replace(PLAN, sets_boundary=False)),
        (SIGNUP, replace(PLAN, variants=[Weight("control", 1), Weight("treatment", 0)])),
    ],
)
def test_any_other_row__has_the_mixture_with_the_whole_alpha(measure: Measure, plan: Plan) -> None:
    sums = values(500, 575, 5_000)
    test = always_valid(row_of(inputs((measure, sums), plan=plan)))
    assert test.p_value == pytest.approx(Mixture(10_000, 5_000, 0.05).p_value(score(*sums.values())), rel=1e-9)


def test_part_of_the_users__has_the_mixture() -> None:
    sums = values(500, 575, 5_000)
    comparison = analyse_parts([inputs((SIGNUP, sums), plan=PLAN)])[0][0].variants[1].comparison
    assert comparison is not None
    expected = Mixture(10_000, 5_000, 0.05).p_value(score(*sums.values()))
    assert always_valid(comparison).p_value == pytest.approx(expected, rel=1e-9)


def test_several_treatments__count_their_own_users_and_the_controls() -> None:
    sums = {"control": share(500, 5_000), "treatment": share(575, 5_000), "other": share(500, 5_000)}
    row = row_of(inputs((SIGNUP, sums), plan=Plan(size=30_000)))
    expected = Planned.at(0.5, 10_000, 20_000, 0.05).p_value(score(*list(sums.values())[:2]))
    assert row.unadjusted_p == pytest.approx(expected, rel=1e-9)
    assert always_valid(row).p_value == pytest.approx(2 * expected, rel=1e-9)


def test_phases_of_other_weights__count_by_their_information() -> None:
    """10,000 users at 50:50 and 10,000 at 90:10, of 40,000 that were planned at 50:50."""
    even, uneven = [Weight("control", 1), Weight("treatment", 1)], [Weight("control", 9), Weight("treatment", 1)]
    parts = [values(500, 640, 5_000), {"control": share(900, 9_000), "treatment": share(100, 1_000)}]
    strata = [
        Stratum(weights, {key: sums.n for key, sums in part.items()}, [part], phases=[number])
        for number, (weights, part) in enumerate(zip((even, uneven), parts, strict=True), 1)
    ]
    design = Design(uneven, "control", True, plan=Plan(size=40_000, variants=even))
    users = {"control": 14_000, "treatment": 6_000}
    row = row_of(Inputs(design, [SIGNUP], strata, users, splits=[Split(even, strata[0].users)]))
    variance = 0.25 * (1 / 5_000 + 1 / 5_000) + 0.25 * (1 / 9_000 + 1 / 1_000)
    expected = Planned.at(1 / variance / 10_000, 20_000, 40_000, 0.05)
    assert expected.share == pytest.approx(0.2647, abs=1e-4)
    mixture = Planned.at(None, 20_000, 40_000, 0.05)
    z = z_of(always_valid(row), expected)
    assert expected.p_value(z) < mixture.p_value(z)
    pooled = [(500 + 640) / 10_000, 0.1]
    errors = [
        pooled[0] * (1 - pooled[0]) * 2 / 5_000 * 10_000 / 9_999,
        pooled[1] * (1 - pooled[1]) * (1 / 9_000 + 1 / 1_000) * 10_000 / 9_999,
    ]
    assert z == pytest.approx(0.5 * 140 / 5_000 / (0.25 * sum(errors)) ** 0.5, rel=1e-9)


# past the planned size


def test_past_the_plan__kept_reading_finds_a_difference__so_does_the_row_whatever_comes() -> None:
    then, today = values(1_000, 1_105, 10_000), values(2_050, 2_100, 20_000)
    row = row_of(with_kept(inputs((SIGNUP, today), plan=PLAN), then))
    expected = Planned.at(1.0, 20_000, 20_000, 0.05)
    assert (row.label, always_valid(row).p_value) == (
        "better",
        pytest.approx(expected.p_value(score(*then.values())), rel=1e-9),
    )
    assert row.kept is not None
    assert (row.kept.instant, row.kept.users, row.kept.is_shown, row.kept.is_contradicted) == (
        THEN,
        20_000,
        True,
        False,
    )
    assert isinstance(row.difference, Estimate)
    assert isinstance(row.lift, Estimate)
    assert (row.difference.estimate, row.difference.today) == (pytest.approx(0.0105), pytest.approx(0.0025))
    assert (row.lift.estimate, row.lift.today) == (pytest.approx(0.105), pytest.approx(50 / 2_050))
    same = row_of(inputs((SIGNUP, then), plan=PLAN))
    assert always_valid(row).lower == pytest.approx(always_valid(same).lower)  # today's interval is the wider one there
    assert row.lift.always_valid.sign == 1


def test_past_the_plan__today_finds_a_difference__so_does_the_row() -> None:
    then, today = values(1_000, 1_050, 10_000), values(20_000, 21_400, 200_000)
    row = row_of(with_kept(inputs((SIGNUP, today), plan=PLAN), then))
    expected = Planned.at(None, 400_000, 20_000, 0.05).p_value(score(*today.values()))
    assert (row.label, always_valid(row).p_value) == ("better", pytest.approx(expected, rel=1e-9))
    assert row.kept is not None
    assert not row.kept.is_shown
    assert isinstance(row.difference, Estimate)
    assert (row.difference.estimate, row.difference.today) == (pytest.approx(0.007), None)


def test_past_the_plan__interval__is_what_both_readings_contain() -> None:
    then, today = values(1_000, 1_100, 10_000), values(10_000, 10_600, 100_000)
    row = row_of(with_kept(inputs((SIGNUP, today), plan=PLAN), then))
    first = always_valid(row_of(inputs((SIGNUP, then), plan=PLAN)))
    later = always_valid(row_of(inputs((SIGNUP, today), plan=PLAN)))
    test = always_valid(row)
    assert (test.lower, test.upper) == (max(first.lower, later.lower), min(first.upper, later.upper))


def test_past_the_plan__readings_with_nothing_in_common__are_decided_by_the_kept_one() -> None:
    then, today = values(1_000, 1_300, 10_000), values(30_000, 29_000, 200_000)
    row = row_of(with_kept(inputs((SIGNUP, today), plan=PLAN), then))
    first = always_valid(row_of(inputs((SIGNUP, then), plan=PLAN)))
    assert row.label == "better"
    assert always_valid(row) == first
    assert row.kept is not None
    assert row.kept.is_contradicted


def test_past_the_plan__without_a_kept_reading__has_the_mixture_with_its_part_of_alpha() -> None:
    today = values(2_000, 2_100, 20_000)
    row = row_of(inputs((SIGNUP, today), plan=PLAN))
    expected = Planned.at(None, 40_000, 20_000, 0.05).p_value(score(*today.values()))
    assert (row.kept, always_valid(row).p_value) == (None, pytest.approx(expected, rel=1e-9))


def test_past_the_plan__kept_reading_of_too_few_conversions__does_not_count() -> None:
    then, today = values(1, 15, 10_000), values(20, 60, 40_000)
    row = row_of(with_kept(inputs((SIGNUP, today), plan=PLAN), then))
    assert row.kept is None


def test_past_the_plan__correction__holds_for_p_value_and_interval_alike() -> None:
    names = ("control", "treatment", "other")
    then = {key: share(count, 10_000) for key, count in zip(names, (1_000, 1_120, 1_005), strict=True)}
    today = {key: share(count, 20_000) for key, count in zip(names, (2_030, 2_150, 2_035), strict=True)}
    of_today = inputs((SIGNUP, today), plan=Plan(size=30_000))
    row = row_of(with_kept(of_today, then))
    test = always_valid(row)
    assert test.level == pytest.approx(0.975)
    assert (test.p_value < 0.05, test.sign) == (True, 1)
    assert test.p_value == pytest.approx(2 * (row.unadjusted_p or 0.0))
