"""The verdict: the checks of the data, the first goal, the guardrails, and the text of reasons."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from experiments.stats.analysis import analyse
from experiments.stats.effects import NO_VARIANCE
from experiments.stats.outcomes import Decision
from experiments.stats.samples import NO_DENOMINATOR
from experiments.stats.types import Design, FlagOff, Margin, Measure, ReasonCode, Split, Sums, Weight
from experiments.stats.verdict import NO_GOAL, NO_PLAN
from tests.experiments.stats.sums import inputs, inputs_of, share, sums_of

SIGNUP = Measure("signup", "share")
ERRORS = Measure("errors", "share", is_decrease_good=True, is_guardrail=True)
LOADED = Measure("loaded", "share", is_guardrail=True)
CRASHES = Measure("crashes", "mean", is_decrease_good=True, is_guardrail=True)
PER_VISIT = Measure("per-visit", "ratio", is_guardrail=True)
REVENUE = Measure("revenue", "mean")
GROWTH = {"control": 20_000.0, "treatment": 30_000.0}
GOOD = SIGNUP, {"control": share(20, 200), "treatment": share(120, 200)}


def signups(**positive: int) -> tuple[Measure, dict[str, Sums]]:
    """Users of 10,000 each who signed up, by variant."""
    return SIGNUP, {key: share(count, 10_000) for key, count in positive.items()}


def errors(**positive: int) -> tuple[Measure, dict[str, Sums]]:
    return ERRORS, {key: share(count, 10_000) for key, count in positive.items()}


def decide(*measured, **changes):
    return analyse(inputs(*measured, **changes)).verdict


def codes(verdict) -> list[ReasonCode]:
    return [reason.code for reason in verdict.reasons]


def test_verdict__treatment_clearly_better__is_to_ship_it_and_says_by_how_much():
    verdict = decide(signups(control=1000, treatment=1200))
    assert (verdict.decision, verdict.variant) == (Decision.SHIP, "treatment")
    assert [reason.message for reason in verdict.reasons] == [
        "signup of treatment is 2.00 percentage points above control (95 % always-valid interval 0.62 to 3.39), "
        "p < 0.001: better."
    ]


def test_verdict__equal_values__says_that_they_are_equal():
    reason, _ = decide(signups(control=1000, treatment=1000)).reasons
    assert reason.message.startswith("signup of treatment equals that of control (95 % always-valid interval ")


def test_verdict__treatment_clearly_worse__is_not_to_ship():
    verdict = decide(signups(control=1200, treatment=1000))
    assert (verdict.decision, verdict.variant, codes(verdict)) == (Decision.DO_NOT_SHIP, None, [ReasonCode.WORSE])


def test_verdict__decrease_is_good__turns_better_and_worse():
    measure = Measure("bounce", "share", is_decrease_good=True)
    sums = {"control": share(1200, 10_000), "treatment": share(1000, 10_000)}
    assert decide((measure, sums)).decision == Decision.SHIP
    assert decide((measure, dict(zip(sums, reversed(sums.values()), strict=True)))).decision == Decision.DO_NOT_SHIP


@pytest.mark.parametrize(("is_running", "decision"), [(True, Decision.KEEP_RUNNING), (False, Decision.INCONCLUSIVE)])
def test_verdict__difference_that_may_be_chance__is_open_while_it_runs(is_running, decision):
    verdict = decide(signups(control=1000, treatment=1050), is_running=is_running)
    assert (verdict.decision, verdict.variant) == (decision, None)
    assert verdict.reasons[0].code == ReasonCode.NOT_SIGNIFICANT
    assert verdict.reasons[1:] == ([NO_PLAN] if is_running else [])


def test_verdict__significant_by_the_test_for_one_look_alone__stays_open():
    analysis = analyse(inputs(signups(control=1000, treatment=1100)))
    assert analysis.measures[0].variants[1].comparison.single_look.difference.p_value < 0.05
    assert analysis.verdict.decision == Decision.KEEP_RUNNING


def test_verdict__other_goals_beside_the_first__do_not_weigh_on_it():
    first = signups(control=1000, treatment=1150)
    others = [(Measure(f"other {at}", "share"), first[1] | {"treatment": share(1000, 10_000)}) for at in range(9)]
    analysis = analyse(inputs(first, *others))
    assert analysis.verdict == decide(first)
    assert analysis.verdict.decision == Decision.SHIP


def test_verdict__one_treatment__is_what_the_interval_says(subtests: pytest.Subtests) -> None:
    for positive in range(1090, 1160, 5):
        with subtests.test(positive=positive):
            analysis = analyse(
                inputs(signups(control=1000, treatment=positive), (REVENUE, signups(control=9, treatment=9)[1]))
            )
            test = analysis.measures[0].variants[1].comparison.difference.always_valid
            assert (analysis.verdict.decision == Decision.SHIP) == (test.lower > 0)


def test_verdict__several_treatments__are_adjusted_for_and_the_reason_says_so():
    alone = decide(signups(control=1000, treatment=1140))
    assert alone.decision == Decision.SHIP
    assert "after" not in alone.reasons[0].message
    among = decide(signups(control=1000, treatment=1140, other=1000, third=1000))
    assert among.decision == Decision.KEEP_RUNNING
    assert "after Holm over 3 treatments" in among.reasons[0].message


def test_verdict__other_correction__is_named():
    verdict = decide(signups(control=1000, treatment=1200, other=1000), correction="benjamini-hochberg")
    assert "after Benjamini-Hochberg over 2 treatments" in verdict.reasons[0].message


def test_verdict__better_but_a_guardrail_is_harmed__is_not_to_ship():
    verdict = decide(signups(control=1000, treatment=1200), errors(control=500, treatment=700))
    assert verdict.decision == Decision.DO_NOT_SHIP
    assert codes(verdict) == [ReasonCode.BETTER, ReasonCode.GUARDRAIL_HARMED]
    assert verdict.reasons[1].message.startswith("errors of treatment is 2.00 percentage points above control (95 %")
    assert verdict.reasons[1].message.endswith("): a guardrail is harmed.")


@pytest.mark.parametrize(("treatment", "margin"), [(300, 0.01), (500, 0.3), (500, 1.0)])
def test_verdict__guardrail_shown_safe_by_its_margin__does_not_stand_in_the_way(treatment, margin):
    measure, sums = errors(control=500, treatment=treatment)
    verdict = decide(signups(control=1000, treatment=1200), (replace(measure, margin=Margin(margin)), sums))
    assert (verdict.decision, codes(verdict)) == (Decision.SHIP, [ReasonCode.BETTER])


@pytest.mark.parametrize(
    ("guardrail", "control", "treatment", "described"),
    [
        (
            *(ERRORS, share(0, 200), share(200, 200)),
            "errors of treatment is 100.00 percentage points above control "
            "(95 % always-valid interval 91.97 to 100.00)",
        ),
        (
            *(LOADED, share(200, 200), share(0, 200)),
            "loaded of treatment is 100.00 percentage points below control "
            "(95 % always-valid interval \N{MINUS SIGN}100.00 to \N{MINUS SIGN}91.97)",
        ),
        (
            *(CRASHES, sums_of([0.0] * 200), sums_of([1.0] * 200)),
            "crashes of treatment is 1 above control, and all users of a variant have the same value",
        ),
    ],
)
def test_verdict__guardrail_got_worse_for_every_user__is_harmed(guardrail, control, treatment, described):
    verdict = decide(GOOD, (guardrail, {"control": control, "treatment": treatment}))
    assert (verdict.decision, codes(verdict)) == (
        Decision.DO_NOT_SHIP,
        [ReasonCode.BETTER, ReasonCode.GUARDRAIL_HARMED],
    )
    assert verdict.reasons[1].message == f"{described}: a guardrail is harmed."


@pytest.mark.parametrize("users", [{}, {"control": 100, "treatment": 900, "other": 100}])
def test_harmed__guardrails_by_treatment__are_reported_whatever_else_decides(users):
    given = inputs(
        signups(control=1000, treatment=1000, other=1000),
        errors(control=500, treatment=700, other=500),
        (CRASHES, {key: sums_of([amount] * 200) for key, amount in {"control": 0.0, "treatment": 1.0}.items()}),
        (replace(LOADED, is_post_hoc=True), errors(control=700, treatment=500, other=500)[1]),
    )
    [stratum] = given.strata
    analysis = analyse(replace(given, strata=[replace(stratum, users=users or given.users)]))
    assert (analysis.verdict.decision == Decision.CHECK_DATA) is bool(users)
    assert analysis.harmed == {"treatment": ["errors", "crashes"], "other": []}


@pytest.mark.parametrize(
    ("guardrail", "control", "treatment", "cause"),
    [
        (PER_VISIT, sums_of([0.0, 1.0] * 100, d=[2.0, 3.0] * 100), Sums(n=200), NO_DENOMINATOR),
        (PER_VISIT, sums_of([0.0] * 200, d=[2.0] * 200), Sums(n=200), NO_DENOMINATOR),
    ],
)
@pytest.mark.parametrize(("is_running", "decision"), [(True, Decision.KEEP_RUNNING), (False, Decision.INCONCLUSIVE)])
def test_verdict__guardrail_cannot_be_compared__keeps_a_winner_from_being_shipped(
    guardrail, control, treatment, cause, is_running, decision
):
    verdict = decide(GOOD, (guardrail, {"control": control, "treatment": treatment}), is_running=is_running)
    assert (verdict.decision, verdict.variant) == (decision, None)
    assert codes(verdict) == [ReasonCode.BETTER, ReasonCode.GUARDRAIL_UNDECIDED]
    assert verdict.reasons[1].message == (
        f"{guardrail.key} of treatment cannot be compared with control's: {cause.message}"
    )


@pytest.mark.parametrize(
    ("control", "treatment", "needed"),
    [(sums_of([0.0, 1.0] * 100), Sums(), 100), (sums_of([0.0, 1.0] * 100), share(1, 99), 6_405)],
)
def test_verdict__guardrail_of_few_users__keeps_a_winner_from_being_shipped(control, treatment, needed):
    verdict = decide(GOOD, (CRASHES, {"control": control, "treatment": treatment}))
    assert (verdict.decision, codes(verdict)) == (
        Decision.KEEP_RUNNING,
        [ReasonCode.BETTER, ReasonCode.GUARDRAIL_UNDECIDED],
    )
    assert verdict.reasons[1].message == (
        f"Guardrail crashes of treatment is not decided: treatment has {treatment.n} users; "
        f"a verdict needs 100 in every variant. It needs {needed:,} more users in control and treatment together."
    )


@pytest.mark.parametrize(
    ("guardrail", "sums"),
    [
        (ERRORS, share(0, 200)),
        (CRASHES, sums_of([0.0] * 200)),
        (PER_VISIT, sums_of([0.0] * 200)),
        (PER_VISIT, sums_of([0.0] * 200, d=[2.0, 3.0] * 100)),
    ],
)
def test_verdict__guardrail_without_an_event_anywhere__does_not_stand_in_the_way_but_is_named(guardrail, sums):
    verdict = decide(GOOD, (guardrail, {"control": sums, "treatment": sums}))
    assert (verdict.decision, codes(verdict)) == (Decision.SHIP, [ReasonCode.BETTER, ReasonCode.GUARDRAIL_SILENT])
    assert verdict.reasons[1].message == (
        f"Guardrail {guardrail.key} of treatment has no events in any variant: check that they are tracked."
    )


@pytest.mark.parametrize(
    ("control", "treatment"),
    [
        (sums_of([1.0] * 200), sums_of([1.0] * 200)),
        (sums_of([0.1] * 200), sums_of([0.1] * 300)),
        (sums_of([1.0] * 200), sums_of([0.0] * 200)),
    ],
)
def test_verdict__guardrail_that_got_no_worse_for_any_user__does_not_stand_in_the_way(control, treatment):
    verdict = decide(GOOD, (CRASHES, {"control": control, "treatment": treatment}))
    assert (verdict.decision, codes(verdict)) == (Decision.SHIP, [ReasonCode.BETTER])


def test_verdict__guardrail_unknown_for_the_best__is_to_ship_the_best_of_those_it_is_known_for():
    good = {key: sums_of([0.0, 1.0] * 100) for key in ("control", "good")}
    crashes = replace(CRASHES, margin=Margin(1.0))
    verdict = decide(signups(control=1000, good=1200, best=1300), (crashes, good | {"best": Sums()}))
    assert (verdict.decision, verdict.variant) == (Decision.SHIP, "good")


def test_verdict__goal_that_may_be_chance_and_a_guardrail_harmed__is_not_to_ship():
    verdict = decide(signups(control=1000, treatment=1010), errors(control=500, treatment=800))
    assert verdict.decision == Decision.DO_NOT_SHIP
    assert codes(verdict) == [ReasonCode.NOT_SIGNIFICANT, ReasonCode.GUARDRAIL_HARMED]


def test_verdict__one_treatment_harmful_and_one_open__stays_open():
    goal = signups(control=1000, harmful=1300, same=1010)
    verdict = decide(goal, errors(control=500, harmful=800, same=500))
    assert (verdict.decision, verdict.variant) == (Decision.KEEP_RUNNING, None)


def test_verdict__guardrail_named_first__does_not_decide():
    verdict = decide(errors(control=500, treatment=300), signups(control=1000, treatment=1010))
    assert verdict.decision == Decision.KEEP_RUNNING


def test_verdict__several_treatments_better__is_the_best_of_those_that_do_no_harm():
    goal = signups(control=1000, good=1200, best=1300, harmful=1500)
    measure, sums = errors(control=500, good=500, best=480, harmful=800)
    verdict = decide(goal, (replace(measure, margin=Margin(0.4)), sums))
    assert (verdict.decision, verdict.variant) == (Decision.SHIP, "best")
    assert codes(verdict) == [ReasonCode.BETTER] * 3 + [ReasonCode.GUARDRAIL_HARMED, ReasonCode.NOT_DISTINGUISHABLE]
    assert verdict.reasons[-1].message == (
        "signup of best is not shown to differ from that of good: any of them may be the best."
    )


def test_verdict__one_treatment_worse_and_one_open__stays_open():
    assert decide(signups(control=1200, worse=1000, same=1210)).decision == Decision.KEEP_RUNNING


def test_verdict__all_treatments_worse_or_harmful__is_not_to_ship():
    verdict = decide(signups(control=1200, worse=1000, harmful=1500), errors(control=500, worse=500, harmful=800))
    assert verdict.decision == Decision.DO_NOT_SHIP


def test_verdict__another_control__compares_with_that():
    verdict = decide(signups(a=1200, b=1000), control="b")
    assert (verdict.decision, verdict.variant) == (Decision.SHIP, "a")


def test_verdict__users_not_split_as_wanted__is_to_check_the_data_whatever_the_goal_says():
    verdict = decide(signups(control=1000, treatment=1200), users={"control": 10_000, "treatment": 9_000})
    assert (verdict.decision, codes(verdict)) == (Decision.CHECK_DATA, [ReasonCode.SAMPLE_RATIO_MISMATCH])
    assert "control 10000 (9500), treatment 9000 (9500)" in verdict.reasons[0].message


@pytest.mark.parametrize(("several", "decision"), [(200, Decision.SHIP), (201, Decision.CHECK_DATA)])
def test_verdict__users_in_several_variants__is_to_check_the_data_above_one_percent(several, decision):
    assert decide(signups(control=1000, treatment=1200), several=several).decision == decision


@pytest.mark.parametrize(("texts", "decision"), [(30, Decision.SHIP), (31, Decision.CHECK_DATA)])
def test_verdict__texts_for_numbers__is_to_check_the_data_above_one_percent(texts, decision):
    spent = {key: Sums(n=10_000, nonzero=1000, y=total, yy=total * 50) for key, total in GROWTH.items()}
    verdict = decide((replace(REVENUE, events=3000, texts=texts), spent))
    assert verdict.decision == decision
    assert (ReasonCode.NOT_NUMBERS in codes(verdict)) is (decision == Decision.CHECK_DATA)


def test_verdict__texts_for_numbers_of_a_metric_added_post_hoc__decide_nothing():
    late = replace(REVENUE, events=10, texts=10, is_post_hoc=True)
    nothing = {key: Sums(n=10_000) for key in GROWTH}
    assert decide(signups(control=1000, treatment=1200), (late, nothing)).decision == Decision.SHIP


def test_verdict__flag_off__is_to_check_the_data_after_a_day(subtests: pytest.Subtests) -> None:
    for hours, is_running, decision, message in [
        (0, True, Decision.SHIP, "no user sees a variant. If it stays off for a day, the"),
        (
            23,
            True,
            Decision.SHIP,
            "no user sees a variant. If it stays off for a day, the",
        ),
        (24, True, Decision.CHECK_DATA, "no user has seen a variant for 24 hours. Switch it on, or stop"),
        (49, True, Decision.CHECK_DATA, "no user has seen a variant for 2 days. Switch it on, or stop"),
        (0, False, Decision.SHIP, "until the end: no user saw a variant then."),
        (1, False, Decision.SHIP, "until the end: no user saw a variant for 1 hour."),
        (24, False, Decision.CHECK_DATA, "until the end: no user saw a variant for 24 hours."),
    ]:
        with subtests.test(hours=hours):
            since = datetime(2026, 1, 31, 12, tzinfo=UTC)
            off = FlagOff("button", since, since + timedelta(hours=hours))
            verdict = decide(signups(control=1000, treatment=1200), flag_off=off, is_running=is_running)
            assert (verdict.decision, verdict.reasons[-1].code) == (decision, ReasonCode.FLAG_OFF)
            assert message in verdict.reasons[-1].message
            assert "31 Jan 2026, 12:00 UTC" in verdict.reasons[-1].message


@pytest.mark.parametrize(
    ("control", "treatment", "code"),
    [
        (share(50, 99), share(50, 100), ReasonCode.TOO_FEW_USERS),
        (share(50, 100), share(0, 99), ReasonCode.TOO_FEW_USERS),
        (share(9, 100), share(10, 100), ReasonCode.TOO_FEW_CONVERSIONS),
        (share(19, 100), share(0, 100), ReasonCode.TOO_FEW_CONVERSIONS),
    ],
)
def test_verdict__variant_too_small__is_open_and_says_so(control, treatment, code):
    verdict = decide((SIGNUP, {"control": control, "treatment": treatment}))
    assert (verdict.decision, {*codes(verdict)}) == (Decision.KEEP_RUNNING, {code})


@pytest.mark.parametrize(("is_mature", "users"), [(False, "99 users"), (True, "99 mature users")])
def test_verdict__variant_too_small__names_the_users_that_it_counts(is_mature, users):
    measure = replace(SIGNUP, counts_mature_users=is_mature)
    [reason] = decide((measure, {"control": share(50, 100), "treatment": share(50, 99)})).reasons
    assert reason.message == f"treatment has {users}; a verdict needs 100 in every variant."


def test_verdict__large_amounts__are_written_as_on_the_page():
    sums = {
        key: Sums(n=10_000, nonzero=10_000, y=total, yy=total * 4_000)
        for key, total in (("control", 1e7), ("treatment", 2.2345e7))
    }
    [reason] = decide((REVENUE, sums)).reasons
    assert reason.message.startswith("revenue of treatment is 1,234.50 above control (95 % always-valid interval 1,1")


def test_verdict__just_large_enough__is_one():
    verdict = decide((SIGNUP, {"control": share(10, 100), "treatment": share(90, 100)}))
    assert verdict.decision == Decision.SHIP


def test_verdict__values_below_0__count_as_well_as_others():
    losses = {
        key: Sums(n=1000, nonzero=900, y=total, yy=4000.0)
        for key, total in (("control", -1500.0), ("treatment", -500.0))
    }
    assert decide((REVENUE, losses)).decision == Decision.SHIP


def test_verdict__variant_of_weight_0__is_neither_waited_for_nor_judged():
    variants = [Weight("control", 1), Weight("treatment", 1), Weight("off", 0)]
    _, sums = signups(control=1000, treatment=1200)
    users = {"control": 10_000, "treatment": 10_000}
    given = inputs_of(Design(variants, "control", True), [SIGNUP], [sums], users)
    assert analyse(given).verdict.variant == "treatment"


def test_verdict__no_weight_but_for_control__is_open_and_says_so():
    variants = [Weight("control", 1), Weight("off", 0)]
    _, sums = signups(control=1000)
    verdict = analyse(inputs_of(Design(variants, "control", True), [SIGNUP], [sums], {"control": 10_000})).verdict
    assert (verdict.decision, codes(verdict)) == (Decision.KEEP_RUNNING, [ReasonCode.TOO_FEW_USERS])


def test_verdict__everybody_converted_everywhere__is_no_difference_that_is_shown():
    verdict = decide((SIGNUP, {"control": share(500, 500), "treatment": share(500, 500)}))
    assert (verdict.decision, codes(verdict)) == (
        Decision.KEEP_RUNNING,
        [ReasonCode.NOT_SIGNIFICANT, ReasonCode.PLANNED_SIZE],
    )
    assert verdict.reasons[0].message.startswith("signup of treatment equals that of control (95 % always-valid")


def test_verdict__everybody_spent_the_same__cannot_be_compared():
    verdict = decide((REVENUE, {"control": sums_of([2.0] * 500), "treatment": sums_of([2.0] * 500)}))
    message = f"revenue of treatment cannot be compared with control's: {NO_VARIANCE.message}"
    assert verdict.reasons[0].message == message


def test_verdict__no_goal__is_open_and_says_so():
    verdict = decide(errors(control=500, treatment=500), is_running=False)
    assert (verdict.decision, codes(verdict)) == (Decision.INCONCLUSIVE, [ReasonCode.NO_GOAL])


def test_verdict__no_goal_and_a_harmed_guardrail__is_not_to_ship():
    verdict = decide(errors(control=500, treatment=800))
    assert (verdict.decision, codes(verdict)) == (
        Decision.DO_NOT_SHIP,
        [ReasonCode.NO_GOAL, ReasonCode.GUARDRAIL_HARMED],
    )


def test_verdict__goal_added_post_hoc__decides_nothing_and_weighs_on_no_other():
    first = signups(control=1000, treatment=1150)
    added = Measure("added", "share", is_post_hoc=True), {"control": share(20, 10_000), "treatment": share(900, 10_000)}
    analysis = analyse(inputs(first, added))
    assert analysis.verdict == decide(first)
    assert analysis.measures[0] == analyse(inputs(first)).measures[0]
    assert analysis.measures[1].variants[1].comparison.family is None
    assert decide(added).reasons == [NO_GOAL]


def test_verdict__guardrail_added_post_hoc__does_not_stand_in_the_way():
    measure, sums = errors(control=100, treatment=300)
    assert decide(signups(control=1000, treatment=1200), (measure, sums)).decision == Decision.DO_NOT_SHIP
    added = replace(measure, is_post_hoc=True), sums
    assert decide(signups(control=1000, treatment=1200), added).decision == Decision.SHIP


def test_verdict__users_of_two_phases_as_their_weights_say__is_by_the_goal():
    given = inputs(signups(control=1000, treatment=1200), users={"control": 14_000, "treatment": 6_000})
    assert analyse(given).verdict.decision == Decision.CHECK_DATA
    uneven = Split([Weight("control", 9), Weight("treatment", 1)], {"control": 9_000, "treatment": 1_000})
    even = Split(given.design.variants, {"control": 5_000, "treatment": 5_000})
    assert analyse(replace(given, splits=[uneven, even])).verdict.decision == Decision.SHIP
