"""The error rates of the tests over twenty looks, and that a simulated split equals real results."""

from __future__ import annotations

from itertools import accumulate

import numpy as np
import pytest

from experiments.stats import sample_ratio
from experiments.stats.analysis import analyse
from experiments.stats.simulation import (
    Comparison,
    Observed,
    Population,
    Simulation,
    comparisons,
    estimates,
    simulate,
    split,
)
from experiments.stats.types import Cuped, Design, Inputs, Measure, Reason, Weight
from flags.engine.bucketing import compile_split

HALVES = Design([Weight("control", 50), Weight("green", 50)], control="control", is_running=True, tuning_size=500)
THIRDS = Design([Weight("a", 1), Weight("b", 1), Weight("none", 0), Weight("c", 1)], control="b", is_running=True)
LOOKS = 20
ROUNDS = 1000


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


def test_simulate__progress__is_told_of_each_split() -> None:
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
def test_estimates__of_any_split__are_exactly_those_of_the_results(design: Design, salt: str) -> None:
    users = population(300)
    measures = [observed.measure for observed in users.observed]
    for sums in split(users, design, salt=salt, looks=4):
        exposed = {key: of_variant.n for key, of_variant in sums[0].items()}
        analysis = analyse(Inputs(design, measures, sums, exposed))
        found = dict(zip(comparisons(users, design), estimates(users, design, sums), strict=True))
        compared = {
            (measure.key, variant.key): variant.comparison
            for measure in analysis.measures
            for variant in measure.variants
            if variant.comparison is not None
        }
        assert len(found) == (len(measures) + 1) * len(compared) // len(measures)
        for which, estimate in found.items():
            of_results = compared[which.measure, which.variant]
            if which.is_cuped and isinstance(of_results.cuped, Cuped):
                assert estimate == of_results.cuped.difference
            elif isinstance(of_results.difference, Reason):
                assert isinstance(estimate, Reason)
            else:
                assert estimate == of_results.difference


def test_comparisons__any__adjust_only_where_there_is_history() -> None:
    assert comparisons(population(100), HALVES) == [
        Comparison("purchase", "green", is_cuped=False),
        Comparison("revenue", "green", is_cuped=False),
        Comparison("revenue", "green", is_cuped=True),
        Comparison("click-rate", "green", is_cuped=False),
    ]


def test_seen_at__users_that_do_not_divide__all_are_seen_at_the_last_look() -> None:
    assert population(10).seen_at(4) == [3, 5, 8, 10]
