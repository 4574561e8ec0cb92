"""What a registered plan makes of the verdict: the planned size, the smallest effect, the shortest run, one reading."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from experiments.stats.analysis import analyse, analyse_parts
from experiments.stats.outcomes import Decision, Verdict
from experiments.stats.plans import planned_users
from experiments.stats.types import Design, Margin, Measure, Plan, ReasonCode, Weight
from tests.experiments.stats.sums import inputs, share

SIGNUP = Measure("signup", "share")
WINNER = {"control": share(1000, 10_000), "treatment": share(1200, 10_000)}
ALIKE = {"control": share(50_000, 100_000), "treatment": share(50_010, 100_000)}
OPEN = {"control": share(1000, 10_000), "treatment": share(1040, 10_000)}


def decide(sums: dict, plan: Plan, *others: tuple, **changes: object) -> Verdict:
    return analyse(inputs((SIGNUP, sums), *others, plan=plan, **changes)).verdict


def codes(verdict: Verdict) -> list[ReasonCode]:
    return [reason.code for reason in verdict.reasons]


@pytest.mark.parametrize(
    ("remaining", "decision", "days"),
    [
        (timedelta(days=6, seconds=1), Decision.KEEP_RUNNING, "7 days"),
        (timedelta(seconds=1), Decision.KEEP_RUNNING, "1 day"),
        (timedelta(0), Decision.SHIP, None),
        (timedelta(days=-3), Decision.SHIP, None),
    ],
)
def test_verdict__before_the_shortest_run_is_over__is_never_to_ship(remaining, decision, days):
    verdict = decide(WINNER, Plan(remaining=remaining))
    assert verdict.decision == decision
    if days:
        assert verdict.reasons[-1].code == ReasonCode.SHORTEST_RUN
        assert verdict.reasons[-1].message == f"The shortest run that was planned is not over: {days} left."


def test_verdict__harm_before_the_shortest_run_is_over__is_not_to_ship():
    worse = dict(zip(WINNER, reversed(WINNER.values()), strict=True))
    assert decide(worse, Plan(remaining=timedelta(days=6))).decision == Decision.DO_NOT_SHIP


def test_verdict__at_the_planned_size__is_no_difference_only_where_the_lift_is_within_the_smallest_effect(
    subtests: pytest.Subtests,
) -> None:
    for sums, plan, decision in [
        (ALIKE, Plan(size=200_000, minimum_effect=0.03), Decision.NO_DIFFERENCE),
        (ALIKE, Plan(size=200_000, minimum_effect=0.001), Decision.INCONCLUSIVE),
        (ALIKE, Plan(size=200_000), Decision.INCONCLUSIVE),
        (ALIKE, Plan(size=200_001, minimum_effect=0.03), Decision.KEEP_RUNNING),
        (ALIKE, Plan(minimum_effect=0.03), Decision.KEEP_RUNNING),
        (OPEN, Plan(size=20_000, minimum_effect=0.03), Decision.INCONCLUSIVE),
        (WINNER, Plan(size=20_000, minimum_effect=0.05), Decision.SHIP),
        (WINNER, Plan(size=20_000, minimum_effect=0.5), Decision.NO_DIFFERENCE),
    ]:
        with subtests.test(sums=sums):
            verdict = decide(sums, plan)
            assert verdict.decision == decision
            assert (ReasonCode.PLANNED_SIZE in codes(verdict)) == (decision != Decision.SHIP)


def test_verdict__below_the_planned_size__says_how_far_it_is():
    assert decide(OPEN, Plan(size=50_000)).reasons[-1].message == "50,000 users are planned; 20,000 users count so far."


def test_verdict__at_the_planned_size__says_so_with_the_smallest_effect():
    message = decide(ALIKE, Plan(size=200_000, minimum_effect=0.03)).reasons[-1].message
    assert message == "The planned size of 200,000 users is reached; the smallest effect of interest is 3 %."


def test_verdict__one_treatment_worse_and_the_others_within_the_smallest_effect__is_no_difference():
    sums = {**ALIKE, "worse": share(45_000, 100_000)}
    assert decide(sums, Plan(size=300_000, minimum_effect=0.03)).decision == Decision.NO_DIFFERENCE


def test_verdict__winner_with_an_undecided_guardrail_at_the_planned_size__still_waits_for_it():
    guardrail = Measure("renewals", "share", is_guardrail=True), {key: share(30, 10_000) for key in WINNER}
    verdict = decide(WINNER, Plan(size=20_000, minimum_effect=0.03), guardrail)
    assert (verdict.decision, codes(verdict)[-1]) == (Decision.KEEP_RUNNING, ReasonCode.GUARDRAIL_UNDECIDED)


def test_planned_users__by_weight__add_up_to_the_size_or_a_little_more():
    design = Design([Weight("a", 1), Weight("b", 3), Weight("off", 0)], "a", True, plan=Plan(size=1001))
    assert planned_users(design) == {"a": 251, "b": 751}
    assert planned_users(replace(design, plan=Plan())) == {}


def test_planned_users__weights_that_floats_round__are_exact():
    design = Design([Weight("a", 40), Weight("b", 60)], "a", True, plan=Plan(size=1000))
    assert planned_users(design) == {"a": 400, "b": 600}
    assert planned_users(replace(design, variants=[Weight("a", 0.1), Weight("b", 0.2)])) == {"a": 334, "b": 667}


def test_planned_users__weights_changed_since__are_those_of_the_start():
    plan = Plan(size=100, variants=[Weight("a", 1), Weight("b", 1)])
    assert planned_users(Design([Weight("a", 1), Weight("b", 9)], "a", True, plan=plan)) == {"a": 50, "b": 50}


def test_fixed__before_every_variant_has_its_users__says_how_far_it_is_and_decides_nothing():
    sums = {"control": share(1000, 10_000), "treatment": share(1200, 9_999)}
    verdict = decide(sums, Plan(size=20_000, analysis="fixed"))
    assert (verdict.decision, codes(verdict)) == (Decision.KEEP_RUNNING, [ReasonCode.PLANNED_SIZE])
    assert verdict.reasons[0].message == (
        "treatment has 9,999 users of the 10,000 that are planned; the results are read at that size."
    )
    stopped = decide(sums, Plan(size=20_000, analysis="fixed"), is_running=False)
    assert stopped.decision == Decision.INCONCLUSIVE


def test_fixed__enough_users_without_a_reading__waits_for_it():
    """As where all users count, also those whose window is not over."""
    analysis = analyse(inputs((SIGNUP, WINNER), plan=Plan(size=20_000, analysis="fixed")))
    assert (analysis.verdict.decision, codes(analysis.verdict)) == (Decision.KEEP_RUNNING, [ReasonCode.PLANNED_SIZE])
    assert analysis.verdict.reasons[0].message == (
        "The results are read when every variant has its planned number of users who count."
    )
    assert not analysis.measures[0].variants[1].comparison.is_fixed
    waiting = decide(WINNER, Plan(size=20_000, analysis="fixed", remaining=timedelta(days=2)))
    assert codes(waiting) == [ReasonCode.SHORTEST_RUN]


def test_fixed__read__is_decided_by_it_even_in_a_part_of_the_users():
    sums = {"control": share(100, 1000), "treatment": share(200, 1000)}
    assert decide(sums, Plan(size=20_000, analysis="fixed", is_read=True)).decision == Decision.SHIP


def test_fixed__read_with_too_few_conversions__is_inconclusive():
    sums = {"control": share(3, 10_000), "treatment": share(4, 10_000)}
    assert decide(sums, Plan(size=20_000, analysis="fixed", is_read=True)).decision == Decision.INCONCLUSIVE


@pytest.mark.parametrize("converted", [1000, 1500])
def test_fixed__before_the_reading__rows_are_always_valid_and_have_no_label(converted):
    sums = {"control": share(1000, 10_000), "treatment": share(converted, 9_999)}
    given = inputs((SIGNUP, sums), plan=Plan(size=20_000, analysis="fixed"))
    comparison = analyse(given).measures[0].variants[1].comparison
    assert (comparison.is_fixed, comparison.label) == (False, "unread")
    assert analyse_parts([given])[0][0].variants[1].comparison.label == ("better" if converted > 1000 else "unclear")


def test_fixed__at_the_planned_size__decides_by_the_test_for_one_look_and_its_correction():
    sums = {"control": share(1000, 10_000), "treatment": share(1100, 10_000), "other": share(1000, 10_000)}
    given = inputs((SIGNUP, sums), plan=Plan(size=30_000, analysis="fixed", is_read=True))
    analysis = analyse(given)
    row = analysis.measures[0].variants[1].comparison
    assert (row.is_fixed, row.label, row.family) == (True, "better", 2)
    assert row.difference.fixed_horizon.level == pytest.approx(0.975)
    assert row.difference.fixed_horizon.p_value == 2 * row.unadjusted_p
    assert row.single_look.difference.level == 0.95
    assert row.single_look.difference.p_value == row.unadjusted_p
    assert row.single_look.lift.lower > row.lift.fixed_horizon.lower
    assert row.difference.always_valid.level == pytest.approx(0.975)
    assert (analysis.verdict.decision, analysis.verdict.variant) == (Decision.SHIP, "treatment")
    assert "97.5 % fixed-horizon interval" in analysis.verdict.reasons[0].message
    sequential = analyse(inputs((SIGNUP, sums), plan=Plan(size=30_000)))
    assert sequential.verdict.decision == Decision.INCONCLUSIVE


def test_fixed__read_without_a_clear_result__is_over_even_with_an_undecided_guardrail():
    guardrail = (
        Measure("renewals", "share", is_guardrail=True, margin=Margin(0.01)),
        {key: share(30, 10_000) for key in WINNER},
    )
    plan = Plan(size=20_000, minimum_effect=0.05, analysis="fixed", is_read=True)
    assert decide(WINNER, plan, guardrail).decision == Decision.INCONCLUSIVE
    assert decide(OPEN, replace(plan, minimum_effect=0.3)).decision == Decision.NO_DIFFERENCE
