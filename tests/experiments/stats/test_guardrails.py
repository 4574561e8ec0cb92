"""Guardrails: safe, harmed, undecided or silent by their margins, and the users that they need."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from experiments.stats.analysis import analyse
from experiments.stats.outcomes import Decision
from experiments.stats.types import Comparison, Guardrail, Margin, Measure, Plan, Quantile, ReasonCode, Sums
from tests.experiments.stats.sums import inputs, share, sums_of

RENEWALS = Measure("renewals", "share", is_guardrail=True)
ERRORS = Measure("errors", "share", is_guardrail=True, is_decrease_good=True)
SPENDING = Measure("spending", "mean", is_guardrail=True)


def compare(measure: Measure, control: Sums | Quantile, treatment: Sums | Quantile, **changes: object) -> Comparison:
    analysis = analyse(inputs((measure, {"control": control, "treatment": treatment}), **changes))
    comparison = analysis.measures[0].variants[1].comparison
    assert comparison is not None
    return comparison


def judge(measure: Measure, control: Sums | Quantile, treatment: Sums | Quantile, **changes: object) -> Guardrail:
    guardrail = compare(measure, control, treatment, **changes).guardrail
    assert guardrail is not None
    return guardrail


def test_verdict__guardrail_of_a_few_users__keeps_running_and_says_how_many_more_it_needs():
    goal = Measure("signup", "share"), {"control": share(200, 400), "treatment": share(290, 400)}
    guardrail = RENEWALS, {"control": share(14, 400), "treatment": share(8, 400)}
    analysis = analyse(inputs(goal, guardrail))
    assert (analysis.verdict.decision, analysis.verdict.variant) == (Decision.KEEP_RUNNING, None)
    assert [reason.code for reason in analysis.verdict.reasons] == [ReasonCode.BETTER, ReasonCode.GUARDRAIL_UNDECIDED]
    needed = analysis.measures[1].variants[1].comparison.guardrail.users_needed
    assert needed > 100_000
    assert analysis.verdict.reasons[1].message == (
        "Guardrail renewals of treatment may fall by more than its margin of 10 %: "
        f"it needs {needed:,} more users in control and treatment together if there is no difference."
    )


def test_guardrail__by_its_interval_and_margin__has_a_status(subtests: pytest.Subtests) -> None:
    for measure, control, treatment, status in [
        (RENEWALS, share(5000, 10_000), share(5000, 10_000), "safe"),
        (RENEWALS, share(5000, 10_000), share(5600, 10_000), "safe"),
        (RENEWALS, share(1000, 2000), share(960, 2000), "undecided"),
        (RENEWALS, share(5000, 10_000), share(4300, 10_000), "harmed"),
        (ERRORS, share(5000, 10_000), share(5000, 10_000), "safe"),
        (ERRORS, share(5000, 10_000), share(4300, 10_000), "safe"),
        (ERRORS, share(5000, 10_000), share(5600, 10_000), "harmed"),
        (ERRORS, share(0, 10_000), share(1, 10_000), "undecided"),
        (ERRORS, share(0, 10_000), share(200, 10_000), "harmed"),
        (RENEWALS, share(0, 10_000), share(200, 10_000), "safe"),
        (RENEWALS, share(0, 10_000), share(0, 10_000), "silent"),
        (RENEWALS, share(10_000, 10_000), share(10_000, 10_000), "safe"),
        (replace(RENEWALS, margin=Margin(relative=1.0)), share(3, 10_000), share(2, 10_000), "undecided"),
        (SPENDING, sums_of([2.0] * 500), sums_of([1.9] * 500), "safe"),
        (SPENDING, sums_of([2.0] * 500), sums_of([1.7] * 500), "harmed"),
        (SPENDING, sums_of([-2.0, -4.0] * 5000), sums_of([-2.0, -4.0] * 5000), "safe"),
        (RENEWALS, share(0, 99), share(0, 10_000), "undecided"),
        (RENEWALS, share(3, 3), share(3, 3), "undecided"),
        (replace(SPENDING, kind="quantile"), Quantile(99), Quantile(100), "undecided"),
        (replace(SPENDING, kind="quantile"), Quantile(100), Quantile(100), "silent"),
        (replace(SPENDING, kind="quantile"), Quantile(100, 50, 2.0, 1e-4), Quantile(100, 50, 2.0, 1e-4), "safe"),
    ]:
        with subtests.test(measure=measure):
            assert judge(measure, control, treatment).status == status


def test_guardrail__alike_among_few_users__needs_the_least_number_of_users():
    assert judge(RENEWALS, share(0, 3), share(0, 120)).users_needed == 97


@pytest.mark.parametrize(
    ("margin", "status"),
    [
        (Margin(relative=0.1), "safe"),
        (Margin(relative=0.04), "undecided"),
        (Margin(absolute=0.05), "safe"),
        (Margin(absolute=0.02), "undecided"),
    ],
)
def test_guardrail__margin__is_relative_or_in_units_of_the_measure(margin, status):
    guardrail = judge(replace(RENEWALS, margin=margin), share(5000, 10_000), share(5000, 10_000))
    assert guardrail.status == status
    relative = margin.relative if margin.relative is not None else 2 * margin.absolute
    assert (guardrail.margin.relative, guardrail.margin.absolute) == pytest.approx((relative, relative / 2))


@pytest.mark.parametrize("margin", [Margin(relative=0.1), Margin(relative=0.02), Margin(absolute=0.01)])
@pytest.mark.parametrize("measure", [RENEWALS, ERRORS])
def test_users_needed__without_a_difference__are_those_after_which_it_is_safe(measure, margin):
    measure = replace(measure, margin=margin)
    needed = judge(measure, share(40, 400), share(40, 400)).users_needed
    for factor, status in ((0.995, "undecided"), (1.005, "safe")):
        users = round((800 + needed) / 2 * factor)
        assert judge(measure, share(users / 10, users), share(users / 10, users)).status == status


def test_users_needed__unequal_variants__keep_their_proportion():
    measure = replace(RENEWALS, margin=Margin(relative=0.1))
    control, treatment = sums_of([0.0, 1.0] * 450), sums_of([0.0, 1.0] * 50)
    needed = judge(replace(measure, kind="mean"), control, treatment).users_needed
    for factor, status in ((0.99, "undecided"), (1.01, "safe")):
        times = (1000 + needed) * factor / 1000
        grown = [
            Sums(users, users // 2, y=users / 2, yy=users / 2)
            for users in (round(sums.n * times) for sums in (control, treatment))
        ]
        assert judge(replace(measure, kind="mean"), *grown).status == status


def test_users_needed__enough_users_but_a_lower_estimate__are_none_and_the_verdict_says_so():
    control, treatment = share(50_000, 100_000), share(45_500, 100_000)
    measure = replace(RENEWALS, margin=Margin(relative=0.1))
    assert judge(measure, control, treatment).status == "harmed"  # as the interval is below 0
    slight = share(49_300, 100_000)
    guardrail = judge(replace(measure, margin=Margin(relative=0.02)), control, slight)
    assert (guardrail.status, guardrail.users_needed) == ("undecided", 0)


@pytest.mark.parametrize("treatment", [Sums(), sums_of([3.0])])
def test_guardrail__of_too_few_users__is_undecided_until_each_variant_has_a_hundred(treatment):
    guardrail = judge(SPENDING, sums_of([1.0, 2.0]), treatment)
    assert (guardrail.status, guardrail.users_needed) == ("undecided", 198 - treatment.n)


def test_guardrail__so_rare_that_no_number_of_users_helps__has_none():
    assert (
        judge(replace(SPENDING, margin=Margin(absolute=1e-12)), sums_of([0.0, 1e6]), sums_of([0.0, 1e6])).users_needed
        is None
    )


def test_guardrail__not_a_guardrail__has_no_status():
    assert compare(replace(RENEWALS, is_guardrail=False), share(10, 100), share(10, 100)).guardrail is None


def test_guardrail__at_the_reading_of_a_fixed_analysis__is_judged_by_the_always_valid_test():
    """Harm is to be seen early, whatever the plan of the goal."""
    goal = Measure("signup", "share"), {"control": share(4000, 10_000), "treatment": share(4400, 10_000)}
    guardrail = RENEWALS, {"control": share(2000, 10_000), "treatment": share(1960, 10_000)}
    decided = {}
    for analysis in ("sequential", "fixed"):
        results = analyse(inputs(goal, guardrail, plan=Plan(size=20_000, analysis=analysis, is_read=True)))
        decided[analysis] = results.measures[1].variants[1].comparison.guardrail.status, results.verdict.decision
    assert decided == {
        "sequential": ("undecided", Decision.KEEP_RUNNING),
        "fixed": ("undecided", Decision.INCONCLUSIVE),
    }


def test_users_needed__with_cuped__allow_for_the_mean_of_all_histories():
    random = np.random.default_rng(2)
    habit = random.gamma(0.1, 1, 60)
    sums = sums_of((habit + random.normal(0, 0.01, 60)).tolist(), habit.tolist())
    measure = replace(SPENDING, margin=Margin(relative=0.5), is_non_negative=True)
    guardrail = judge(measure, sums, sums, is_adjusted=True)
    assert guardrail.users_needed > 50
    for factor, status in ((0.97, "undecided"), (1.03, "safe")):
        times = (120 + guardrail.users_needed) * factor / 120
        grown = Sums(round(60 * times), *(getattr(sums, name) * round(60 * times) / 60 for name in Sums.__slots__[1:]))
        assert judge(measure, grown, grown, is_adjusted=True).status == status
