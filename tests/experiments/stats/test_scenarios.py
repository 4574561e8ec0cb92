"""Whole situations, and what the verdict says of each; and what never makes a verdict better."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.stats.analysis import analyse
from experiments.stats.outcomes import Decision, Verdict
from experiments.stats.types import (
    Comparison,
    Estimate,
    GuardrailStatus,
    Inputs,
    Margin,
    Measure,
    Plan,
    Reason,
    Sums,
    Weight,
)
from tests.experiments.stats.sums import inputs, share

SIGNUP = Measure("signup", "share")
SECOND = Measure("second", "share")
REVENUE = Measure("revenue", "mean", is_non_negative=True)
RETAINED = Measure("retained", "share", counts_mature_users=True)
CRASHES = Measure("crashes", "share", is_decrease_good=True, is_guardrail=True)
RENEWALS = Measure("renewals", "share", is_guardrail=True)
UNPLANNED = Plan()
FIXED = Plan(size=20_000, analysis="fixed")

Measured = tuple[Measure, Mapping[str, Sums]]


def shares(measure: Measure, **converted: tuple[int, int]) -> Measured:
    """The users who converted and all users, by variant."""
    return measure, {key: share(*counts) for key, counts in converted.items()}


def values(mean: float, spread: float, n: int, *, before: tuple[float, float] = (0.0, 0.0)) -> Sums:
    """Users of this mean and standard deviation, and the same of their history, which is unrelated."""
    sums = Sums(n=n, nonzero=n, y=mean * n, yy=(mean**2 + spread**2) * n)
    mean_before, spread_before = before
    total, squares = mean_before * n, (mean_before**2 + spread_before**2) * n
    return replace(sums, x=total, xx=squares, xy=mean * total)


@dataclass(frozen=True, slots=True)
class Scenario:
    """A situation: measures with their sums, the plan, what the verdict is, and what its reasons have to say."""

    name: str
    measured: tuple[Measured, ...]
    decision: str
    codes: tuple[str, ...]
    words: str = ""
    plan: Plan = UNPLANNED
    changes: Mapping[str, object] = field(default_factory=dict)
    variant: str | None = None


WINNER = shares(SIGNUP, control=(1000, 10_000), treatment=(1450, 10_000))
MATURE = shares(RETAINED, control=(250, 2500), treatment=(400, 2500))
WAITING = {"control": 5000, "treatment": 5000}

SCENARIOS = [
    Scenario(
        "the goal rises by 45 %, and a guardrail is undecided",
        (WINNER, shares(RENEWALS, control=(500, 10_000), treatment=(500, 10_000))),
        "keep_running",
        ("better", "guardrail_undecided"),
        "more users in control and treatment together if there is no difference",
    ),
    Scenario(
        "the first goal rises by 40 %, the second falls by 28 %",
        (
            shares(SIGNUP, control=(1000, 10_000), treatment=(1400, 10_000)),
            shares(SECOND, control=(900, 10_000), treatment=(650, 10_000)),
        ),
        "ship",
        ("better", "goal_worse"),
        "second of treatment is 2.50 percentage points below control",
        variant="treatment",
    ),
    Scenario(
        "a winner among 3,000 and 2,600 users",
        (shares(SIGNUP, control=(300, 3000), treatment=(500, 2600)),),
        "check_data",
        ("sample_ratio_mismatch",),
    ),
    Scenario(
        "a winner among mature users, and 5,000 users wait",
        (MATURE,),
        "ship",
        ("better", "users_waiting", "plan_not_reached"),
        "retained: a stop now cuts off the windows of 5,000 of 10,000 users.",
        Plan(size=10_000),
        {"users": WAITING},
        "treatment",
    ),
    Scenario(
        "the same before the shortest run is over",
        (MATURE,),
        "keep_running",
        ("better", "shortest_run"),
        "5 days left",
        Plan(size=10_000, remaining=timedelta(days=5)),
        {"users": WAITING},
    ),
    Scenario(
        "no effect, precisely, at the planned size",
        (shares(SIGNUP, control=(50_000, 100_000), treatment=(50_010, 100_000)),),
        "no_difference",
        ("not_significant", "planned_size"),
        plan=Plan(size=200_000, minimum_effect=0.03),
    ),
    Scenario(
        "no effect, imprecisely, at the planned size",
        (shares(SIGNUP, control=(500, 5000), treatment=(505, 5000)),),
        "inconclusive",
        ("not_significant", "planned_size"),
        plan=Plan(size=10_000, minimum_effect=0.03),
    ),
    Scenario(
        "three treatments at +33, +35 and +33 %",
        (shares(SIGNUP, control=(1000, 10_000), a=(1330, 10_000), b=(1350, 10_000), c=(1330, 10_000)),),
        "ship",
        ("better", "better", "better", "not_distinguishable"),
        "signup of b is not shown to differ from that of a or c: any of them may be the best.",
        variant="b",
    ),
    Scenario(
        "30 users in each variant, of whom 10 and 24 convert",
        (shares(SIGNUP, control=(10, 30), treatment=(24, 30)),),
        "keep_running",
        ("too_few_users", "too_few_users"),
    ),
    Scenario(
        "a lift of 0.3 %, exact to 0.03, where 2 % matter",
        ((REVENUE, {"control": values(100, 6.4, 1_000_000), "treatment": values(100.3, 6.4, 1_000_000)}),),
        "no_difference",
        ("better", "planned_size"),
        "better, but by less than the 2 % that you asked for.",
        Plan(size=2_000_000, minimum_effect=0.02),
    ),
    Scenario(
        "200 and 0 of 2,000 users convert",
        (shares(SIGNUP, control=(200, 2000), treatment=(0, 2000)),),
        "do_not_ship",
        ("worse",),
    ),
    Scenario(
        "500 and 3 of 5,000 users convert, past the planned size",
        (shares(SIGNUP, control=(500, 5000), treatment=(3, 5000)),),
        "do_not_ship",
        ("worse",),
        plan=Plan(size=5000),
    ),
    Scenario(
        "crashes of 1 and 20 %, and a goal that is rare",
        (
            shares(SIGNUP, control=(8, 2000), treatment=(7, 2000)),
            shares(CRASHES, control=(20, 2000), treatment=(400, 2000)),
        ),
        "do_not_ship",
        ("not_significant", "guardrail_harmed"),
    ),
    Scenario(
        "the same before a fixed analysis is read",
        (
            shares(SIGNUP, control=(8, 2000), treatment=(7, 2000)),
            shares(CRASHES, control=(20, 2000), treatment=(400, 2000)),
        ),
        "do_not_ship",
        ("not_significant", "guardrail_harmed"),
        plan=FIXED,
    ),
    Scenario(
        "clearly worse before a fixed analysis is read, and before the shortest run is over",
        (shares(SIGNUP, control=(500, 5000), treatment=(250, 5000)),),
        "do_not_ship",
        ("worse",),
        plan=replace(FIXED, remaining=timedelta(days=5)),
    ),
    Scenario(
        "one treatment is better, one is worse",
        (shares(SIGNUP, control=(1000, 10_000), good=(1300, 10_000), bad=(700, 10_000)),),
        "ship",
        ("better", "worse"),
        variant="good",
    ),
    Scenario(
        "18 of 900 against 0 of 100 users crash",
        (
            shares(SIGNUP, control=(180, 900), treatment=(70, 100)),
            shares(CRASHES, control=(18, 900), treatment=(0, 100)),
        ),
        "keep_running",
        ("better", "guardrail_undecided"),
        "crashes: without a difference, treatment would have 1.800 users with a value; a verdict needs 10",
        changes={"variants": [Weight("control", 9), Weight("treatment", 1)]},
    ),
    Scenario(
        "18 of 900 against 0 of 100 users renew",
        (
            shares(SIGNUP, control=(180, 900), treatment=(70, 100)),
            shares(RENEWALS, control=(18, 900), treatment=(0, 100)),
        ),
        "keep_running",
        ("better", "guardrail_undecided"),
        changes={"variants": [Weight("control", 9), Weight("treatment", 1)]},
    ),
    Scenario(
        "198 of 9,900 against 0 of 100 users convert",
        (shares(SIGNUP, control=(198, 9900), treatment=(0, 100)),),
        "keep_running",
        ("too_few_conversions",),
        changes={"variants": [Weight("control", 99), Weight("treatment", 1)]},
    ),
    Scenario(
        "a retention of 180 of 270 against 0 of 30 users",
        (shares(RETAINED, control=(180, 270), treatment=(0, 30)),),
        "keep_running",
        ("too_few_users",),
        "treatment has 30 mature users; a verdict needs 100 in every variant.",
        changes={"variants": [Weight("control", 9), Weight("treatment", 1)]},
    ),
    Scenario(
        "a retention of 600 of 900 against 0 of 100 users",
        (shares(RETAINED, control=(600, 900), treatment=(0, 100)),),
        "do_not_ship",
        ("worse",),
        changes={"variants": [Weight("control", 9), Weight("treatment", 1)]},
    ),
    Scenario(
        "3 mature users",
        (shares(RETAINED, control=(1, 2), treatment=(1, 1)),),
        "keep_running",
        ("too_few_users", "too_few_users"),
        changes={"users": WAITING},
    ),
    Scenario(
        "users of one variant alone have a history",
        (
            (
                REVENUE,
                {"control": values(100, 20, 2000, before=(30, 10)), "treatment": values(100.57, 20, 2000)},
            ),
        ),
        "check_data",
        ("different_before",),
        changes={"is_adjusted": True},
    ),
    Scenario(
        "numbers such as 337,300.00 that were sent as text",
        ((replace(REVENUE, events=5000, texts=548), {key: values(100, 20, 2000) for key in WAITING}),),
        "check_data",
        ("not_numbers",),
        "548 of 5,000 events of revenue have a text or another value in place of their number",
    ),
    Scenario(
        "a reading whose split is unlikely for one look, and no proof over many",
        (shares(SIGNUP, control=(1000, 10_000), treatment=(1450, 10_650)),),
        "check_data",
        ("sample_ratio_mismatch",),
        plan=replace(FIXED, is_read=True),
    ),
    Scenario(
        "the same at one of many looks",
        (shares(SIGNUP, control=(1000, 10_000), treatment=(1450, 10_500)),),
        "ship",
        ("better", "sample_ratio_suspicious"),
        "Users may not be split by the weights: for this look alone, p < 0.001. Look for a cause.",
        variant="treatment",
    ),
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_verdict__scenario__is_what_it_should_be(scenario: Scenario) -> None:
    changes = {"plan": scenario.plan, **scenario.changes}
    verdict = analyse(inputs(*scenario.measured, **changes)).verdict
    assert (verdict.decision, verdict.variant) == (scenario.decision, scenario.variant), verdict.reasons
    assert codes(verdict) == scenario.codes
    assert scenario.words in " ".join(reason.message for reason in verdict.reasons)


def codes(verdict: Verdict) -> tuple[str, ...]:
    return tuple(str(reason.code) for reason in verdict.reasons)


# what never makes a verdict better

FAVOUR = {Decision.SHIP: 2, Decision.DO_NOT_SHIP: 0}
"""How favourable a verdict is to the treatments; all others are between these two."""
TREATMENTS = ("control", "a", "b")
PLANS = [
    Plan(),
    Plan(size=5000),
    Plan(size=5000, minimum_effect=0.1),
    Plan(size=5000, remaining=timedelta(days=1)),
    Plan(size=5000, analysis="fixed"),
    Plan(size=5000, analysis="fixed", is_read=True),
]


@st.composite
def measured(draw: st.DrawFn, measure: Measure) -> Measured:
    """A share or a mean of users who each have 0 or one value; equal numbers of users are likely."""
    users = draw(st.lists(st.sampled_from([50, 100, 400, 1000, 3000]), min_size=3, max_size=3))
    if draw(st.booleans()):
        users = [users[0]] * 3
    sums = {}
    for key, n in zip(TREATMENTS, users, strict=True):
        active = round(n * draw(st.sampled_from([0, 0.003, 0.02, 0.05, 0.1, 0.12, 0.15, 0.3, 0.9, 1])))
        amount = 1.0 if measure.kind == "share" else draw(st.sampled_from([1.0, 10.0, 11.0, 30.0]))
        spread = 0.0 if measure.kind == "share" else draw(st.sampled_from([0.0, 1.0, 9.0]))
        squares = active * (amount**2 + spread**2)
        sums[key] = Sums(n=n, nonzero=active, y=active * amount, yy=squares)
    return measure, sums


MEASURES = st.sampled_from([SIGNUP, REVENUE])
GUARDRAILS = st.sampled_from(
    [
        CRASHES,
        RENEWALS,
        replace(RENEWALS, margin=Margin(absolute=0.01)),
        replace(REVENUE, key="spent", is_guardrail=True),
        replace(REVENUE, key="cost", is_guardrail=True, is_decrease_good=True, margin=Margin(0.5)),
    ]
)


def favour(given_inputs: Inputs) -> int:
    return FAVOUR.get(analyse(given_inputs, is_exact=False).verdict.decision, 1)


def statuses(given_inputs: Inputs) -> list[GuardrailStatus]:
    """The states of the guardrail that comes last, by treatment."""
    comparisons = (variant.comparison for variant in analyse(given_inputs, is_exact=False).measures[-1].variants)
    return [one.guardrail.status for one in comparisons if one and one.guardrail]


@settings(derandomize=True, deadline=None, max_examples=300)
@given(
    MEASURES.flatmap(measured),
    st.lists(GUARDRAILS.flatmap(measured), max_size=1),
    GUARDRAILS.flatmap(measured),
    st.sampled_from(PLANS),
)
def test_verdict__another_guardrail__never_makes_it_more_favourable(goal, others, added, plan):
    without, beside = inputs(goal, *others, plan=plan), inputs(goal, *others, added, plan=plan)
    assert favour(beside) <= favour(without)
    verdict = analyse(beside, is_exact=False).verdict
    if verdict.decision == Decision.SHIP:
        status = statuses(beside)[TREATMENTS.index(verdict.variant) - 1]
        assert status in ("safe", "silent")


@settings(derandomize=True, deadline=None, max_examples=300)
@given(
    MEASURES.flatmap(measured),
    st.lists(GUARDRAILS.flatmap(measured), max_size=2),
    st.integers(2, 30),
    st.sampled_from([plan for plan in PLANS if plan.minimum_effect is None]),
)
def test_verdict__fewer_users_of_the_same_means__never_makes_it_to_ship(goal, others, factor, plan):
    few = inputs(goal, *others, plan=plan)
    many = inputs(*((measure, times(sums, factor)) for measure, sums in (goal, *others)), plan=plan)
    if analyse(few, is_exact=False).verdict.decision == Decision.SHIP:
        assert analyse(many, is_exact=False).verdict.decision in (Decision.SHIP, Decision.CHECK_DATA)


def times(sums: Mapping[str, Sums], factor: int) -> Mapping[str, Sums]:
    return {
        key: Sums(n=one.n * factor, nonzero=one.nonzero * factor, y=one.y * factor, yy=one.yy * factor)
        for key, one in sums.items()
    }


# input that no experiment should have, and some will

MANY = [f"v{number}" for number in range(50)]


@pytest.mark.parametrize(
    ("name", "measured", "changes", "decision"),
    [
        (
            "weights of 1 and 99,999",
            [shares(SIGNUP, control=(50_000, 99_999), treatment=(1, 1))],
            {"variants": [Weight("control", 99_999), Weight("treatment", 1)]},
            "keep_running",
        ),
        ("one user", [shares(SIGNUP, control=(1, 1), treatment=(0, 0))], {}, "keep_running"),
        ("one user who spent", [(REVENUE, {"control": values(5, 0, 1), "treatment": Sums()})], {}, "keep_running"),
        (
            "values that are all equal",
            [(REVENUE, {"control": values(5, 0, 1000), "treatment": values(5, 0, 1000)})],
            {},
            "keep_running",
        ),
        (
            "a value of 1e300",
            [
                (
                    REVENUE,
                    {
                        "control": values(5, 1, 1000),
                        "treatment": Sums(n=1000, nonzero=1000, y=1e300, yy=float("inf")),
                    },
                )
            ],
            {},
            "keep_running",
        ),
        (
            "values of 1e150, whose squares are just finite",
            [
                (
                    REVENUE,
                    {"control": values(5, 1, 1000), "treatment": Sums(n=1000, nonzero=1000, y=1e150, yy=1e300)},
                )
            ],
            {},
            "keep_running",
        ),
        (
            "refunds alone, which fall",
            [
                (
                    replace(REVENUE, is_non_negative=False),
                    {"control": values(-5, 3, 1000), "treatment": values(-4, 3, 1000)},
                )
            ],
            {},
            "ship",
        ),
        (
            "50 variants",
            [(SIGNUP, {key: share(100 + (number == 7) * 100, 1000) for number, key in enumerate(MANY)})],
            {},
            "ship",
        ),
    ],
)
def test_analyse__input_that_is_hardly_possible__gives_finite_figures_and_a_verdict(name, measured, changes, decision):
    for guardrail in ([], [(replace(measured[0][0], key="guard", is_guardrail=True), measured[0][1])]):
        analysis = analyse(inputs(*measured, *guardrail, **changes))
        assert analysis.verdict.decision == decision, name
        for measure in analysis.measures:
            for variant in measure.variants:
                if variant.comparison:
                    assert_finite(variant.comparison)


def assert_finite(comparison: Comparison) -> None:
    for estimate in (comparison.difference, comparison.lift):
        if isinstance(estimate, Estimate):
            figures = [estimate.estimate, estimate.standard_error]
            for test in (estimate.always_valid, estimate.fixed_horizon):
                figures += [test.lower, test.upper, test.p_value, test.level]
            assert all(figure is None or math.isfinite(figure) for figure in figures)
        else:
            assert isinstance(estimate, Reason)


@pytest.mark.parametrize("n", [100, 2000])
def test_row__variant_without_conversions__has_a_lift_of_minus_100_percent_with_an_upper_bound(n: int) -> None:
    [_, treatment] = analyse(inputs(shares(SIGNUP, control=(n // 5, n), treatment=(0, n)))).measures[0].variants
    lift = treatment.comparison.lift
    assert (lift.estimate, lift.always_valid.lower, treatment.reason) == (-1.0, -1.0, None)
    assert lift.always_valid.open is None
    assert (lift.always_valid.upper < 0) == (lift.always_valid.p_value < 0.05) == (n > 100)
    assert treatment.interval.upper > 0
