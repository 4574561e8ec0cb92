"""The error rates of the tests over twenty looks, and that a simulated split equals real results."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate

import numpy as np
import pytest

from experiments.stats import sample_ratio
from experiments.stats.analysis import analyse
from experiments.stats.outcomes import Decision, Verdict
from experiments.stats.simulation import (
    Comparison,
    Observed,
    Population,
    Simulation,
    comparisons,
    estimates,
    final_verdict,
    inputs_of,
    simulate,
    split,
)
from experiments.stats.types import Design, Measure, Quantile, Reason, Weight
from experiments.stats.verdict import RULES
from flags.engine.bucketing import compile_split

HALVES = Design(
    [Weight("control", 50), Weight("green", 50)], control="control", is_running=True, tuning_size=500, is_adjusted=True
)
THIRDS = Design(
    [Weight("a", 1), Weight("b", 1), Weight("none", 0), Weight("c", 1)], control="b", is_running=True, is_adjusted=True
)
LOOKS = 20
ROUNDS = 300


def population(users: int = 1000) -> Population:
    """A conversion, a revenue with a long tail and with history, and a ratio."""
    random = np.random.default_rng(1)
    nothing = np.zeros(users)
    converts = (random.random(users) < 0.2).astype(float)
    habit = random.lognormal(0, 1, users)
    spends = habit * random.lognormal(0, 0.5, users) * (random.random(users) < 0.5)
    views = 1.0 + random.poisson(4, users)
    return Population(
        [f"user-{number}" for number in range(users)],
        [
            Observed(Measure("purchase", "share"), converts, nothing, nothing),
            Observed(Measure("revenue", "mean"), spends, nothing, habit),
            Observed(
                Measure("click-rate", "ratio"), random.binomial(views.astype(int), 0.3).astype(float), views, nothing
            ),
        ],
    )


@pytest.fixture(scope="module")
def calibrated() -> Simulation:
    return simulate(population(), HALVES, rounds=ROUNDS, looks=LOOKS, seed=2)


def test_simulate__always_valid__errs_at_most_as_often_as_promised_over_twenty_looks(calibrated: Simulation) -> None:
    for rates in calibrated.errors:
        assert len(rates.looks) == LOOKS
        assert 0 < rates.looks[-1].always_valid <= HALVES.alpha, rates.comparison
        assert rates.always_valid_coverage >= 1 - HALVES.alpha


def test_simulate__fixed_horizon__errs_as_promised_at_one_look_and_far_more_often_over_twenty(
    calibrated: Simulation,
) -> None:
    for rates in calibrated.errors:
        assert rates.fixed_horizon_coverage == pytest.approx(1 - HALVES.alpha, abs=0.02), rates.comparison
        assert rates.looks[-1].fixed_horizon > 0.18


def test_simulate__lifts__err_as_differences_do(calibrated: Simulation) -> None:
    for rates in calibrated.errors:
        assert [look.always_valid for look in rates.lifts] == [look.always_valid for look in rates.looks]
        assert rates.lifts[-1].fixed_horizon > 0.18


def test_simulate__labels_and_verdicts__are_wrong_at_most_as_often_as_promised(calibrated: Simulation) -> None:
    assert [look.users for look in calibrated.labels] == [look.users for look in calibrated.sample_ratio]
    last = calibrated.labels[-1]
    assert max(last.primary, last.others) > 0
    assert max(last.primary, last.others) <= HALVES.alpha
    assert last.shipped + last.rejected <= last.primary
    assert last.guardrails == 0  # as there are none


def test_simulate__verdicts__are_counted_by_the_rule_that_decided(calibrated: Simulation) -> None:
    by_rule = {(rate.rule, rate.decision): rate.share for rate in calibrated.verdicts}
    assert sum(by_rule.values()) == pytest.approx(1.0)
    assert by_rule["wait_for_the_plan", Decision.KEEP_RUNNING] > 0.9  # nothing was planned
    last = calibrated.labels[-1]
    assert by_rule.get(("ship_the_best", Decision.SHIP), 0.0) <= last.shipped
    assert {rule for rule, _ in by_rule} <= {rule.__name__ for rule in RULES}


def test_final_verdict__of_several_looks__is_the_first_that_ends_the_experiment() -> None:
    running, ship, stop = (
        Verdict(decision, None, []) for decision in (Decision.KEEP_RUNNING, Decision.SHIP, Decision.DO_NOT_SHIP)
    )
    assert final_verdict([running, ship, stop]) == ship
    assert final_verdict([running, running]) == running


def test_simulate__guardrails__are_called_harmed_at_most_half_as_often_as_differences_are_found() -> None:
    users = population(400)
    guarded = [
        replace(observed, measure=replace(observed.measure, is_guardrail=True)) for observed in users.observed[:1]
    ]
    simulation = simulate(replace(users, observed=guarded), replace(HALVES, alpha=0.5), rounds=60, looks=5, seed=1)
    last, [rates] = simulation.labels[-1], simulation.errors
    assert 0 < last.guardrails < rates.looks[-1].always_valid
    assert (last.primary, last.others) == (0, 0)


def test_simulate__quantile__is_tested_with_the_quantile_of_each_variants_users() -> None:
    random = np.random.default_rng(4)
    values = random.lognormal(0, 1, 300)

    def medians(groups: np.ndarray, number: int) -> list[Quantile]:
        of_groups = (values[groups == group] for group in range(number))
        return [Quantile(len(of), len(of), float(np.median(of)), 0.025) if len(of) else Quantile() for of in of_groups]

    nothing = np.zeros(300)
    observed = Observed(Measure("wait", "quantile"), np.ones(300), nothing, nothing, quantiles=medians)
    users = Population([f"user-{number}" for number in range(300)], [observed])
    [last] = split(users, HALVES, salt="s", looks=1)
    assert sum(of_variant.n for of_variant in last[0].values()) == 300
    assert comparisons(users, HALVES) == [Comparison("wait", "green", is_cuped=False)]
    [rates] = simulate(users, HALVES, rounds=20, looks=2, seed=1).errors
    assert (rates.splits, len(rates.looks)) == (20, 2)


def test_simulate__sample_ratio__hardly_ever_seems_mismatched(calibrated: Simulation) -> None:
    assert calibrated.sample_ratio[-1].always_valid <= 0.001
    assert calibrated.sample_ratio[-1].always_valid <= calibrated.sample_ratio[-1].fixed_horizon


def test_simulate__rates__never_fall_from_look_to_look(calibrated: Simulation) -> None:
    for each in calibrated.errors:
        for rates in ([look.always_valid for look in each.looks], [look.fixed_horizon for look in each.looks]):
            assert rates == list(accumulate(rates, max))
    assert [look.users for look in calibrated.errors[0].looks] == list(range(50, 1001, 50))


def test_sample_ratio__over_twenty_looks__errs_at_most_as_often_as_promised_and_chi_square_more_often() -> None:
    """Use p < 0.05 and three variants, because at 0.001 there would be no false positives to count."""
    shares = np.array([0.5, 0.3, 0.2])
    counts = np.random.default_rng(5).multinomial(200, shares, (5_000, LOOKS)).cumsum(axis=1).astype(float)
    always_valid = -sample_ratio.log_e_value(counts, shares) < np.log(0.05)
    fixed_horizon = sample_ratio.chi_square_p(counts, shares) < 0.05
    assert 0 < always_valid.any(axis=1).mean() <= 0.05
    assert fixed_horizon[:, -1].mean() == pytest.approx(0.05, abs=0.01)
    assert fixed_horizon.any(axis=1).mean() > 0.18


def test_sample_ratio__weights_that_the_split_did_not_go_by__are_noticed() -> None:
    skewed = [Weight("control", 60), Weight("green", 40)]
    sums = split(population(2000), HALVES, salt="s", looks=1)[0][0]
    found = sample_ratio.check(skewed, {key: of_variant.n for key, of_variant in sums.items()})
    assert not isinstance(found, Reason)
    assert found.is_mismatch


def test_simulate__same_seed__draws_the_same_and_another_one_does_not() -> None:
    once, again, other = (simulate(population(200), HALVES, rounds=5, looks=10, seed=seed) for seed in (3, 3, 4))
    assert once == again
    assert once != other


def test_simulate__progress__is_reported_for_each_split() -> None:
    progress: list[int] = []
    simulate(population(200), HALVES, rounds=3, looks=1, seed=1, on_progress=progress.append)
    assert progress == [1, 1, 1]


@pytest.mark.parametrize("design", [HALVES, THIRDS], ids=["two variants", "four variants"])
def test_split__every_user__has_the_variant_that_the_hash_gives(design: Design) -> None:
    users = population(500)
    variant_of = compile_split([(variant.key, variant.weight) for variant in design.variants], "some-salt")
    chosen = [variant_of(user_id) for user_id in users.user_ids]
    for look, seen in enumerate(users.seen_at(7)):
        of_conversion, of_revenue, of_ratio = split(users, design, salt="some-salt", looks=7)[look]
        for variant in design.variants:
            mine = [place for place in range(seen) if chosen[place] == variant.key]
            assert of_conversion[variant.key].n == len(mine)
            assert of_conversion[variant.key].y == users.observed[0].y[mine].sum()
            revenue = users.observed[1]
            assert of_revenue[variant.key].xy == pytest.approx((revenue.x[mine] * revenue.y[mine]).sum())
            assert of_ratio[variant.key].dd == (users.observed[2].d[mine] ** 2).sum()


@pytest.mark.parametrize("design", [HALVES, THIRDS], ids=["two variants", "four variants"])
@pytest.mark.parametrize("salt", ["a", "b", "c"])
def test_estimates__of_any_split__are_those_of_the_results_of_one_metric_and_treatment(
    design: Design, salt: str
) -> None:
    users = population(300)
    measures = [observed.measure for observed in users.observed]
    for sums in split(users, design, salt=salt, looks=4):
        found = dict(zip(comparisons(users, design), estimates(users, design, sums), strict=True))
        for measure, of_measure in zip(measures, sums, strict=True):
            results = analyse(inputs_of([measure], design, [of_measure])).measures[0]
            for variant in (variant for variant in results.variants if variant.comparison):
                raw = variant.raw.comparison if variant.raw else variant.comparison
                difference, lift = found[Comparison(measure.key, variant.key, is_cuped=False)]
                if isinstance(difference, Reason):
                    assert (raw.difference, raw.lift) == (difference, lift)
                else:
                    assert raw.unadjusted_p == difference.always_valid.p_value
                    assert raw.single_look.lift == lift.fixed_horizon
                if variant.raw:
                    difference, _ = found[Comparison(measure.key, variant.key, is_cuped=True)]
                    if not isinstance(difference, Reason):
                        assert variant.comparison.unadjusted_p == difference.always_valid.p_value


def test_comparisons__any__adjust_only_where_there_is_history() -> None:
    assert comparisons(population(100), HALVES) == [
        Comparison("purchase", "green", is_cuped=False),
        Comparison("revenue", "green", is_cuped=False),
        Comparison("revenue", "green", is_cuped=True),
        Comparison("click-rate", "green", is_cuped=False),
    ]


def test_seen_at__users_that_do_not_divide__all_are_seen_at_the_last_look() -> None:
    assert population(10).seen_at(4) == [3, 5, 8, 10]
