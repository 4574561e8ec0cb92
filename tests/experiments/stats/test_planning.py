"""Sample sizes and detectable effects, against published values and against experiments drawn at random."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import nctdtr, stdtrit

from experiments.stats import sequential
from experiments.stats.planning import (
    Baseline,
    Demands,
    Detectable,
    Shares,
    always_valid_users,
    detectable,
    fixed_horizon_users,
)

RATES = [
    # baseline, difference, alpha, power: TTestIndPower and NormalIndPower of statsmodels 0.15, solve_power(d), with
    # d = difference / √((p1 (1 - p1) + p2 (1 - p2)) / 2)
    (0.2, 0.05, 0.05, 0.8, 1091.9528048720601, 1090.9916107996685),
    (0.1, 0.005, 0.05, 0.8, 57760.72486854123, 57759.764488167595),
    (0.1, 0.01, 0.05, 0.9, 19744.401486344406, 19743.44107230513),
    (0.5, 0.05, 0.05, 0.8, 1562.8841854360628, 1561.9232413901009),
    (0.03, 0.003, 0.01, 0.8, 79173.38381904068, 79171.72507912062),
    (0.02, 0.002, 0.05, 0.8, 80679.39755214906, 80678.43717622558),
    (0.9, -0.02, 0.05, 0.8, 3839.0533895548747, 3838.0927890669636),
    (0.4, 0.2, 0.05, 0.95, 156.90348034787897, 155.93650914019875),
]
MEANS = [
    # difference in standard deviations, alpha, power: TTestIndPower and NormalIndPower of statsmodels 0.15
    (0.5, 0.05, 0.8, 63.76561058891169, 62.79088416571135),
    (0.2, 0.05, 0.8, 393.4056930002526, 392.4430232577885),
    (0.1, 0.05, 0.8, 1570.7330430520037, 1569.7721019023288),
    (0.05, 0.05, 0.9, 8406.896008340045, 8405.935527752721),
    (0.2, 0.01, 0.8, 585.6092645450915, 583.9484075754575),
    (0.02, 0.05, 0.8, 39245.26293440909, 39244.30254664326),
]
EVAN_MILLER = [
    # baseline, absolute difference, power: by the formula of https://www.evanmiller.org/ab-testing/sample-size.html
    (0.2, 0.05, 0.8, 1_030),
    (0.1, 0.005, 0.8, 56_885),
    (0.1, 0.01, 0.9, 19_239),
    (0.5, 0.05, 0.8, 1_567),
    (0.02, 0.002, 0.8, 78_039),
]
DETECTABLE = [
    # users per variant, power: TTestIndPower().solve_power(nobs1=users, alpha=0.05) of statsmodels 0.15
    (100, 0.8, 0.3981391138964959),
    (1_000, 0.8, 0.12535080529703696),
    (10_000, 0.9, 0.04584314075739594),
]
DEMANDS = [
    Demands(),
    Demands(power=0.95),
    Demands(alpha=0.01, treatments=3),
    Demands(tuning_size=100_000),
    Demands(is_planned=True),
    Demands(alpha=0.01, treatments=3, is_planned=True),
]
BASELINES = [(Baseline(0.1), 0.01), (Baseline(0.5), 0.2), (Baseline(0.97), 0.005), (Baseline(20.0, 45.0), 1.5)]
RUNS = 20_000


def test_fixed_horizon_users__of_a_rate__are_those_of_statsmodels(subtests: pytest.Subtests) -> None:
    for rate, difference, alpha, power, by_t, by_normal in RATES:
        with subtests.test(rate=rate):
            users = fixed_horizon_users(Baseline(rate), difference, Demands(alpha=alpha, power=power))
            assert 0 <= users - 2 * by_normal <= 2
            assert 0 <= 2 * by_t - users <= 4


def test_fixed_horizon_users__of_a_mean__are_those_of_statsmodels(subtests: pytest.Subtests) -> None:
    for effect, alpha, power, by_t, by_normal in MEANS:
        with subtests.test(effect=effect):
            users = fixed_horizon_users(Baseline(100.0, 30.0), 30.0 * effect, Demands(alpha=alpha, power=power))
            assert abs(users - 2 * by_t) <= 1
            assert 0 <= users - 2 * by_normal <= 5


def test_users__unequal_shares__are_those_of_the_variances_of_both_arms() -> None:
    """10 % and 11 % of users at 10:90 and 1:99, and the boundary of a plan at its last look."""
    baseline, planned = Baseline(0.1), Demands(is_planned=True)
    for share, users in [(0.1, 84_690), (0.01, 775_541)]:
        shares = Shares(share, 1 - share)
        assert fixed_horizon_users(baseline, 0.01, Demands(), shares) == users
        assert always_valid_users(baseline, 0.01, planned, shares) == pytest.approx(1.243 * users, rel=1e-4)


def test_fixed_horizon_users__of_a_mean_in_unequal_shares__reach_the_power_of_the_t_test() -> None:
    """By the noncentral t-distribution with Satterthwaite's degrees of freedom."""
    for share, effect in [(0.1, 0.5), (0.02, 0.8), (0.5, 0.4)]:
        users = fixed_horizon_users(Baseline(10.0, 1.0), effect, Demands(), Shares(share, 1 - share))
        found = []
        for number in (0.99 * users, 1.01 * users):
            parts = 1 / (share * number), 1 / ((1 - share) * number)
            weights = parts[0] ** 2 / (share * number - 1) + parts[1] ** 2 / ((1 - share) * number - 1)
            freedom = sum(parts) ** 2 / weights
            found.append(1 - nctdtr(freedom, effect / math.sqrt(sum(parts)), stdtrit(freedom, 0.975)))
        assert found[0] < 0.8 < found[1]


def test_fixed_horizon_users__of_a_rate__are_near_evan_millers(subtests: pytest.Subtests) -> None:
    """His formula takes the baseline's variance for both variants where nothing differs; Welch's test does not."""
    for rate, difference, power, published in EVAN_MILLER:
        with subtests.test(rate=rate):
            users = fixed_horizon_users(Baseline(rate), difference, Demands(power=power))
            assert users == pytest.approx(2 * published, rel=0.07)


def test_detectable__of_a_mean__is_that_of_statsmodels(subtests: pytest.Subtests) -> None:
    for users, power, effect in DETECTABLE:
        with subtests.test(users=users):
            found = detectable(Baseline(5.0, 2.0), users, users, Demands(power=power))
            assert found.fixed_horizon == pytest.approx(2.0 * effect, rel=1e-4)


@pytest.mark.parametrize("demands", DEMANDS)
@pytest.mark.parametrize(("baseline", "difference"), BASELINES)
def test_detectable__at_the_users_that_were_planned__is_the_difference_planned_for(
    baseline: Baseline, difference: float, demands: Demands
) -> None:
    fixed = fixed_horizon_users(baseline, difference, demands)
    always = always_valid_users(baseline, difference, demands)

    def found(users: int) -> Detectable:
        return detectable(baseline, users / 2, users / 2, demands, users)

    assert found(fixed).fixed_horizon <= difference * (1 + 1e-4)
    assert difference < found(fixed - 2).fixed_horizon
    assert found(always).always_valid <= difference < found(always - 1).always_valid


def test_detectable__past_the_planned_size__is_the_better_of_the_reading_then_and_the_mixture() -> None:
    baseline, demands = Baseline(10.0, 5.0), Demands(is_planned=True)
    effects = [detectable(baseline, n, n, demands, 20_000).always_valid for n in (5_000, 10_000, 12_000, 100_000)]
    assert effects[0] > effects[1] == effects[2] > effects[3]
    error = 5.0 * math.sqrt(2 / 10_000)
    assert effects[1] == pytest.approx((2.28182 + 0.84162) * error, rel=1e-5)
    of_mixture = sequential.half_width(1.0, 200_000, tuning_size=20_000, alpha=0.005) + 0.8416212335729143
    assert effects[3] == pytest.approx(of_mixture * 5.0 * math.sqrt(2 / 100_000), rel=1e-9)


def test_detectable__rate_that_cannot_rise_so_far__is_unknown() -> None:
    found = detectable(Baseline(0.95), 20, 20, Demands())
    assert (found.fixed_horizon, found.always_valid) == (None, None)


def test_detectable__hardly_any_users__is_unknown_of_a_t_test_that_has_no_degrees_of_freedom_to_spare() -> None:
    assert detectable(Baseline(10.0, 1.0), 1, 1, Demands(alpha=0.001)).fixed_horizon is None


@pytest.mark.parametrize(("control", "treatment"), [(0, 5), (5, 1), (1.5, 1.5)])
def test_detectable__fewer_than_two_users_in_a_variant__is_unknown(control: float, treatment: float) -> None:
    found = detectable(Baseline(10.0, 1.0), control, treatment, Demands())
    assert (found.fixed_horizon, found.always_valid) == (None, None)


@pytest.mark.parametrize("baseline", [Baseline(10.0, 1.0), Baseline(1e12, 1e-9)])
def test_users__who_hardly_differ__are_two_at_least(baseline: Baseline) -> None:
    assert fixed_horizon_users(baseline, baseline.mean / 2, Demands()) == 4
    assert always_valid_users(baseline, baseline.mean / 2, Demands()) >= 4
    assert always_valid_users(baseline, baseline.mean / 2, Demands(is_planned=True), Shares(0.1, 0.9)) == 20


def test_detectable__unequal_variants__is_worse_than_with_the_same_users_in_halves() -> None:
    even, uneven = detectable(Baseline(0.1), 5000, 5000, Demands()), detectable(Baseline(0.1), 9000, 1000, Demands())
    assert even.fixed_horizon < uneven.fixed_horizon
    assert even.always_valid < uneven.always_valid


@pytest.mark.parametrize(
    ("easier", "harder"),
    [
        (Demands(), Demands(power=0.9)),
        (Demands(), Demands(alpha=0.01)),
        (Demands(), Demands(treatments=2)),
    ],
)
def test_users__demanding_more__are_more(easier: Demands, harder: Demands) -> None:
    baseline = Baseline(0.1)
    for users in (fixed_horizon_users, always_valid_users):
        assert users(baseline, 0.01, easier) < users(baseline, 0.01, harder)


def test_users__bonferroni__are_those_of_the_smaller_alpha() -> None:
    """4649.218627908156 by TTestIndPower of statsmodels 0.15 at alpha = 0.05 / 2, for 10 % and 12 %, less z²/4."""
    each = 4649.218627908156 - 2.241402727604947**2 / 4
    assert fixed_horizon_users(Baseline(0.1), 0.02, Demands(treatments=2)) == math.ceil(2 * each)


def test_always_valid_users__any__are_the_first_whose_interval_is_narrow_enough() -> None:
    users = always_valid_users(Baseline(50.0, 10.0), 1.0, Demands(tuning_size=2000))

    def reach(users: int) -> float:
        error = 10.0 * math.sqrt(4 / users)
        half = sequential.half_width(error, users, tuning_size=2000, alpha=0.05)
        return float(half + 0.8416212335729143 * error)

    assert reach(users) <= 1.0 < reach(users - 1)


def test_always_valid_users__treatments__are_those_at_which_holms_first_step_rejects() -> None:
    demands = Demands(power=0.5, treatments=4)  # half of the estimates lie beyond the boundary
    users = always_valid_users(Baseline(50.0, 10.0), 1.0, demands)
    z = 1.0 / (10.0 * math.sqrt(4 / users))
    p = float(sequential.p_value(z, users, tuning_size=5000, alpha=0.05))
    assert 4 * p == pytest.approx(0.05, rel=1e-2)
    assert 4 * p <= 0.05


def draw(rates: tuple[float, float], users: int) -> tuple[np.ndarray, np.ndarray]:
    """Differences of two rates and their standard errors, in many runs."""
    random = np.random.default_rng(7)
    control, treatment = (random.binomial(users, rate, RUNS) / users for rate in rates)
    variance = (control * (1 - control) + treatment * (1 - treatment)) / (users - 1)
    return treatment - control, np.sqrt(variance)


def test_fixed_horizon_users__experiments_of_so_many__find_the_effect_as_often_as_planned() -> None:
    users = fixed_horizon_users(Baseline(0.1), 0.02, Demands()) // 2
    estimate, error = draw((0.1, 0.12), users)
    found = np.abs(estimate / error) > stdtrit(2 * users - 2, 0.975)
    assert found.mean() == pytest.approx(0.8, abs=0.01)


def test_always_valid_users__experiments_of_so_many__find_the_effect_as_often_as_planned_at_the_last_look() -> None:
    users = always_valid_users(Baseline(0.1), 0.02, Demands()) // 2
    estimate, error = draw((0.1, 0.12), users)
    found = np.abs(estimate) > sequential.half_width(error, 2 * users, tuning_size=5000, alpha=0.05)
    assert found.mean() == pytest.approx(0.8, abs=0.01)
