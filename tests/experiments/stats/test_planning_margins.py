"""Users until guardrails are shown safe, plans that are tuned to themselves, and what CUPED saves."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import stdtrit

from experiments.stats import sequential
from experiments.stats.planning import (
    Baseline,
    Demands,
    Tolerance,
    always_valid_users,
    always_valid_users_to_be_safe,
    detectable,
    fixed_horizon_users,
    fixed_horizon_users_to_be_safe,
    tuned_users,
)

ABSOLUTE = [
    # mean, standard deviation (None for a rate), margin, alpha, power, and TTestIndPower().solve_power(margin / sd,
    # alpha=alpha / 2, power=power, alternative="larger") of statsmodels 0.15
    (100.0, 30.0, 3.0, 0.05, 0.8, 1570.7368880459837),
    (-7.0, 45.0, 2.0, 0.05, 0.9, 10639.72630766137),
    (0.0, 10.0, 0.5, 0.01, 0.8, 9344.833396707487),
    (2.0, 1.0, 0.05, 0.05, 0.9, 8406.898929736566),
    (500.0, 120.0, 60.0, 0.05, 0.8, 63.76576412328325),
    (0.1, None, 0.01, 0.05, 0.8, 14128.943950603592),
    (0.03, None, 0.002, 0.05, 0.9, 152883.9659149911),
]
RELATIVE = [
    # mean, standard deviation, margin, whether a decrease is good, power, and the same of statsmodels 0.15 with
    # d = |mean| margin / (sd √((1 + r²) / 2)): Hauschke's formula for the ratio r of two means
    (20.0, 45.0, 0.1, False, 0.8, 7192.987102100483),
    (20.0, 45.0, 0.1, True, 0.8, 8782.38522554662),
    (-20.0, 45.0, 0.1, False, 0.8, 8782.38522554662),
    (-20.0, 45.0, 0.1, True, 0.8, 7192.987102100483),
    (5.0, 2.0, 0.02, False, 0.9, 8240.461350775458),
    (0.1, None, 0.1, False, 0.8, 12786.785524038203),
    (0.1, None, 1.0, False, 0.8, 71.61305323116396),
]
ALWAYS_VALID = [
    # standard deviation, margin, power: the root of half-width + z(power) SE = margin, by SciPy 1.15's brentq
    (30.0, 3.0, 0.8, 3008.3092507118904),
]
TUNED = [
    # standard deviation, difference, power, alpha: the same root with N* = 2 n
    (10.0, 1.0, 0.8, 0.05, 3005.9625170651507),
    (10.0, 0.1, 0.5, 0.05, 184249.87230521668),
    (10.0, 0.1, 0.9, 0.01, 471067.42050799885),
]
RUNS = 20_000


def of_both(each: float, deviation: float | None, alpha: float) -> float:
    """The users of both variants; those of a rate without what the t-distribution needs, z²/4 in each."""
    return 2 * (each - (stdtrit(1e9, 1 - alpha / 2) ** 2 / 4 if deviation is None else 0))


def test_fixed_horizon_users_to_be_safe__absolute_margin__are_those_of_statsmodels(subtests: pytest.Subtests) -> None:
    for mean, deviation, margin, alpha, power, expected in ABSOLUTE:
        with subtests.test(mean=mean):
            users = fixed_horizon_users_to_be_safe(
                Baseline(mean, deviation), Tolerance(absolute=margin), Demands(alpha=alpha, power=power)
            )
            assert abs(users - of_both(expected, deviation, alpha)) <= 1


def test_fixed_horizon_users_to_be_safe__relative_margin__are_those_of_the_ratio_of_means(
    subtests: pytest.Subtests,
) -> None:
    for mean, deviation, margin, is_decrease_good, power, expected in RELATIVE:
        with subtests.test(mean=mean):
            tolerance = Tolerance(relative=margin, is_decrease_good=is_decrease_good)
            users = fixed_horizon_users_to_be_safe(Baseline(mean, deviation), tolerance, Demands(power=power))
            assert abs(users - of_both(expected, deviation, 0.05)) <= 1


def test_always_valid_users_to_be_safe__any__are_those_of_the_root(subtests: pytest.Subtests) -> None:
    for deviation, margin, power, expected in ALWAYS_VALID:
        with subtests.test(deviation=deviation):
            tolerance = Tolerance(absolute=margin)
            users = always_valid_users_to_be_safe(Baseline(5.0, deviation), tolerance, Demands(power=power))
            assert users == math.ceil(2 * expected)


def test_users_to_be_safe__treatments__do_not_share_alpha() -> None:
    baseline, tolerance = Baseline(0.1), Tolerance(relative=0.1)
    for users in (fixed_horizon_users_to_be_safe, always_valid_users_to_be_safe):
        assert users(baseline, tolerance, Demands(treatments=4)) == users(baseline, tolerance, Demands())


def test_users_to_be_safe__relative_margin__hold_for_experiments_drawn_at_random() -> None:
    """By Fieller's theorem the lift lies above -10 % where m_t - 0.9 m_c exceeds its half-width."""
    baseline, demands = Baseline(0.2), Demands()
    random = np.random.default_rng(3)
    for users_of, is_fixed in ((fixed_horizon_users_to_be_safe, True), (always_valid_users_to_be_safe, False)):
        users = users_of(baseline, Tolerance(relative=0.1), demands) // 2
        control, treatment = (random.binomial(users, 0.2, RUNS) / users for _ in range(2))
        variances = [rates * (1 - rates) / (users - 1) for rates in (control, treatment)]
        error = np.sqrt(variances[1] + 0.81 * variances[0])
        half = (
            error * stdtrit(2 * users - 2, 0.975)
            if is_fixed
            else sequential.half_width(error, 2 * users, tuning_size=5000, alpha=0.05)
        )
        assert (treatment - 0.9 * control > half).mean() == pytest.approx(0.8, abs=0.01)


def test_tuned_users__tuned_to_both_variants__are_those_of_the_root(subtests: pytest.Subtests) -> None:
    for deviation, difference, power, alpha, expected in TUNED:
        with subtests.test(deviation=deviation):
            demands = Demands(power=power, alpha=alpha)
            users = tuned_users(Baseline(3.0, deviation), difference, demands, lambda users: users)
            assert users == math.ceil(2 * expected)
            tuned = Demands(power=power, alpha=alpha, tuning_size=users)
            assert always_valid_users(Baseline(3.0, deviation), difference, tuned) == users


def test_tuned_users__intervals_as_wide_as_those_of_one_look__take_2_4_times_its_users() -> None:
    """With N* = 5,000 it is 3.5 times as many at a million users. Power 0.5 compares the widths alone."""
    baseline, demands, difference = Baseline(0.1), Demands(power=0.5), 0.002
    fixed = fixed_horizon_users(baseline, difference, demands)
    tuned = tuned_users(baseline, difference, demands, lambda users: users)
    assert tuned / fixed == pytest.approx(2.398, abs=0.001)
    assert always_valid_users(baseline, difference, demands) / fixed == pytest.approx(3.53, abs=0.01)


def test_users__with_cuped__are_those_of_the_variance_that_is_left() -> None:
    """1005.6154113830073 by TTestIndPower of statsmodels 0.15 for d = 0.1 / √0.64."""
    assert fixed_horizon_users(Baseline(1.0, 1.0, 0.36), 0.1, Demands()) == math.ceil(2 * 1005.6154113830073)
    plain, adjusted = Baseline(50.0, 10.0), Baseline(50.0, 12.5, 0.36)  # 12.5² times 0.64 is 10²
    assert always_valid_users(adjusted, 1.0, Demands()) == always_valid_users(plain, 1.0, Demands())
    assert detectable(adjusted, 500, 700, Demands()) == detectable(plain, 500, 700, Demands())
    absolute = Tolerance(absolute=0.5)
    assert fixed_horizon_users_to_be_safe(adjusted, absolute, Demands()) == fixed_horizon_users_to_be_safe(
        plain, absolute, Demands()
    )


def test_detectable__of_a_rate_with_cuped__is_found_with_the_users_planned() -> None:
    baseline = Baseline(0.1, reduction=0.5)
    users = fixed_horizon_users(baseline, 0.01, Demands())
    assert users < fixed_horizon_users(Baseline(0.1), 0.01, Demands()) / 1.9
    found, before = (detectable(baseline, n / 2, n / 2, Demands()).fixed_horizon for n in (users, users - 1))
    assert found <= 0.01 < before


def test_users_to_be_safe__with_cuped__include_the_error_of_the_mean_before_the_exposure() -> None:
    """The adjusted means share it, and a ratio of means does not cancel it: (r - 1)² R v for all users."""
    baseline, tolerance = Baseline(10.0, 30.0, 0.75), Tolerance(relative=0.5)
    errors = 1.959963984540054 + 0.8416212335729143
    squared = 2 * 0.25 * 900 * (1 + 0.5**2) + 0.75 * 900 * 0.5**2
    parts = 1.0, 0.5**2
    freedom = sum(parts) ** 2 / (2 * sum(part**2 for part in parts))  # for one user of both variants
    expected = squared * (errors / 5.0) ** 2 + 1.959963984540054**2 / 2 / freedom
    assert fixed_horizon_users_to_be_safe(baseline, tolerance, Demands()) == math.ceil(expected)
