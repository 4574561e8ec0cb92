"""Score intervals of two shares, against published values and the likelihood, maximised numerically."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

import pytest
from scipy.optimize import brentq

from experiments.stats.shares import Shares, SharesOfStratum

Z_95 = 1.959963984540054
Arms = tuple[float, float, float, float]
"""The converted users and all users of the treatment, and those of the control."""
PAIRS: Sequence[Arms] = [
    (56, 70, 48, 80),
    (9, 10, 3, 10),
    (5, 56, 0, 29),
    (0, 100, 18, 900),
    (0, 20, 0, 30),
    (20, 20, 30, 30),
    (20, 20, 0, 30),
    (3, 500, 500, 5_000),
    (110, 10_000, 100_000, 10_000_000),
    (2, 10**9, 3, 10**9),
]


def of_one(arms: Arms) -> Shares:
    return Shares([SharesOfStratum(1.0, *arms)])


def lifts_of(pair: Shares, width: float) -> tuple[float, float]:
    """Return the interval of the lift, with infinity for an open side."""
    lower, upper = pair.bounds_of_lift(width)
    return -math.inf if lower is None else lower, math.inf if upper is None else upper


def variance(arms: Arms, treatment_of: Callable[[float], float], ratio: float, most: float, least: float) -> float:
    """Return the score's variance, from the most likely share of the control between `least` and `most`."""
    x_t, n_t, x_c, n_c = arms

    def slope(control: float) -> float:
        """Return the derivative of the log-likelihood along the line that `treatment_of` describes."""
        treatment = treatment_of(control)
        change = ratio or 1.0
        parts = (x_t and change * x_t / treatment, x_t < n_t and change * (n_t - x_t) / (1 - treatment))
        return parts[0] - parts[1] + (x_c and x_c / control) - (x_c < n_c and (n_c - x_c) / (1 - control))

    inner = (most - least) * 1e-13
    if not inner or slope(least + inner) <= 0:
        control = least
    elif slope(most - inner) >= 0:
        control = most
    else:
        control = brentq(slope, least + inner, most - inner, xtol=1e-300, rtol=1e-15, maxiter=1000)
    treatment = min(max(treatment_of(control), 0.0), 1.0)
    users = n_t + n_c
    of_control = (ratio or 1.0) ** 2 * control * (1 - control) / n_c
    return (treatment * (1 - treatment) / n_t + of_control) * users / (users - 1)


def variance_of_difference(arms: Arms, difference: float) -> float:
    least, most = max(0.0, -difference), min(1.0, 1 - difference)
    return variance(arms, lambda control: control + difference, 0.0, most, least)


def variance_of_ratio(arms: Arms, ratio: float) -> float:
    return variance(arms, lambda control: ratio * control, ratio, min(1.0, 1 / ratio), 0.0)


def find(excess: Callable[[float], float], inside: float, limit: float) -> float:
    """Return where the excess is 0 between a point inside the interval and a limit, or the limit."""
    return limit if excess(limit) <= 0 else brentq(excess, inside, limit, xtol=1e-300, rtol=1e-14, maxiter=1000)


@pytest.mark.parametrize(
    ("arms", "lower", "upper"),
    [  # Newcombe 1998, Statistics in Medicine 17:873, table II, method 6 (Miettinen and Nurminen)
        ((56, 70, 48, 80), 0.0528, 0.3382),
        ((9, 10, 3, 10), 0.1700, 0.8406),
        ((5, 56, 0, 29), -0.0326, 0.1933),
    ],
)
def test_difference__examples_of_newcombe__as_he_printed_them(arms: Arms, lower: float, upper: float) -> None:
    assert of_one(arms).bounds_of_difference(Z_95) == pytest.approx((lower, upper), abs=5e-5)


def test_ratio__example_of_koopman__as_he_printed_it() -> None:
    """Koopman 1984, Biometrics 40:513: 36 of 40 against 16 of 80, without the factor N / (N - 1)."""
    lower, upper = lifts_of(of_one((36, 40, 16, 80)), Z_95 * math.sqrt(119 / 120))
    assert (lower + 1, upper + 1) == pytest.approx((2.94, 7.15), abs=5e-3)


@pytest.mark.parametrize("arms", PAIRS, ids=str)
@pytest.mark.parametrize("width", [Z_95, 3.3, 6.0])
def test_difference__bounds__are_the_roots_of_the_definition(arms: Arms, width: float) -> None:
    x_t, n_t, x_c, n_c = arms
    estimate = x_t / n_t - x_c / n_c

    def excess(difference: float) -> float:
        return abs(estimate - difference) - width * math.sqrt(variance_of_difference(arms, difference))

    least = 1e-9 / (n_t + n_c)  # at the estimate itself, equal shares of 0 or 1 have no variance
    expected = [
        find(excess, estimate + sign * least, float(sign)) if estimate != sign else estimate for sign in (-1, 1)
    ]
    assert of_one(arms).bounds_of_difference(width) == pytest.approx(expected, rel=1e-6, abs=1e-24)


@pytest.mark.parametrize("arms", [arms for arms in PAIRS if arms[2]], ids=str)
@pytest.mark.parametrize("width", [Z_95, 3.3, 6.0])
def test_lift__bounds__are_the_roots_of_the_definition(arms: Arms, width: float) -> None:
    x_t, n_t, x_c, n_c = arms
    estimate = (x_t / n_t) / (x_c / n_c)

    def excess(ratio: float) -> float:
        distance = abs(x_t / n_t - ratio * x_c / n_c)
        return distance - width * math.sqrt(variance_of_ratio(arms, ratio))

    lower, upper = lifts_of(of_one(arms), width)
    # At the estimate itself, equal shares of 1 have no variance.
    assert upper + 1 == pytest.approx(find(excess, estimate * (1 + 1e-6) or 1e-9 / (n_t + n_c), 1e12), rel=1e-6)
    if x_t:
        assert lower + 1 == pytest.approx(find(excess, estimate * (1 - 1e-6), 1e-15), rel=1e-6)
    else:
        assert lower == -1


@pytest.mark.parametrize("arms", PAIRS, ids=str)
@pytest.mark.parametrize("candidate", [-0.9, -0.2, -1e-3, -1e-8, 0.0, 1e-8, 1e-3, 0.2, 0.9])
def test_shares_under_a_candidate__have_the_greatest_likelihood(arms: Arms, candidate: float) -> None:
    part, ratio = SharesOfStratum(1.0, *arms), 1 + candidate
    rounding = 1e-9 if arms[0] == arms[1] else 1e-24
    expected = variance_of_difference(arms, candidate)
    assert part.variance_of_difference(candidate) == pytest.approx(expected, rel=1e-6, abs=rounding)
    assert part.variance_of_ratio(ratio) == pytest.approx(variance_of_ratio(arms, ratio), rel=1e-6, abs=rounding)


def test_no_difference__is_tested_by_the_pooled_share() -> None:
    x_t, n_t, x_c, n_c = arms = 110, 1_000, 80, 1_000
    pooled = (x_t + x_c) / (n_t + n_c)
    error = math.sqrt(pooled * (1 - pooled) * (1 / n_t + 1 / n_c) * 2000 / 1999)
    for z in (of_one(arms).z_of_difference(0.0), of_one(arms).z_of_ratio(1.0)):
        assert z == pytest.approx((x_t / n_t - x_c / n_c) / error, rel=1e-9)


def test_no_conversions__still_have_an_interval() -> None:
    none_of_treatment, none = of_one((0, 100, 18, 900)), of_one((0, 100, 0, 900))
    lower, upper = lifts_of(none_of_treatment, Z_95)
    assert (lower, of_one((5, 100, 0, 900)).bounds_of_lift(Z_95)) == (-1.0, (-1.0, None))
    assert upper > 0
    lower, upper = none.bounds_of_difference(Z_95)
    assert lower < 0 < upper
    assert (none.z_of_difference(0.0), none.bounds_of_lift(Z_95)) == (0.0, (-1.0, None))
    all_converted = of_one((100, 100, 900, 900)).bounds_of_difference(Z_95)
    assert all_converted == pytest.approx((-upper, -lower), rel=1e-9)


@pytest.mark.parametrize("arms", PAIRS, ids=str)
def test_bounds__exchanged_variants__are_mirrored(arms: Arms) -> None:
    x_t, n_t, x_c, n_c = arms
    pair, exchanged = of_one(arms), of_one((x_c, n_c, x_t, n_t))
    lower, upper = pair.bounds_of_difference(3.3)
    assert exchanged.bounds_of_difference(3.3) == pytest.approx((-upper, -lower), rel=1e-6, abs=1e-24)
    if x_t and x_c:
        lower, upper = (1 + bound for bound in lifts_of(pair, 3.3))
        assert lifts_of(exchanged, 3.3) == pytest.approx((1 / upper - 1, 1 / lower - 1), rel=1e-6)


def test_bounds__more_conversions_or_a_wider_interval__never_move_back() -> None:
    by_count = [of_one((converted, 50, 5, 60)) for converted in range(51)]
    for fewer, more in pairwise(by_count):
        differences = zip(fewer.bounds_of_difference(Z_95), more.bounds_of_difference(Z_95), strict=True)
        assert all(bound < next_bound for bound, next_bound in differences)
        lifts = zip(lifts_of(fewer, Z_95), lifts_of(more, Z_95), strict=True)
        assert all(bound <= next_bound for bound, next_bound in lifts)
    for pair in by_count:
        for narrow, wide in pairwise(pair.bounds_of_difference(width) for width in (0.5, 1.0, 2.0, 4.0)):
            assert wide[0] < narrow[0] <= narrow[1] < wide[1]


@pytest.mark.parametrize("arms", PAIRS, ids=str)
@pytest.mark.parametrize("width", [0.5, Z_95, 3.3])
def test_sign__of_difference_and_lift__follows_z(arms: Arms, width: float) -> None:
    pair = of_one(arms)
    finds = abs(pair.z_of_difference(0.0)) > width
    intervals = [pair.bounds_of_difference(width), *([lifts_of(pair, width)] if pair.control else [])]
    assert [lower > 0 or upper < 0 for lower, upper in intervals] == [finds] * len(intervals)


STRATA = [
    [(0.5, (12, 100, 80, 900)), (0.5, (300, 500, 220, 500))],
    [(0.2, (0, 40, 3, 400)), (0.3, (1, 100, 2, 100)), (0.5, (9, 10, 3, 10))],
]


@pytest.mark.parametrize("parts", STRATA, ids=["two", "three"])
@pytest.mark.parametrize("width", [Z_95, 3.3])
def test_strata__bounds__are_the_roots_of_the_definition(parts: list[tuple[float, Arms]], width: float) -> None:
    pair = Shares([SharesOfStratum(weight, *arms) for weight, arms in parts])
    treatment = sum(weight * x_t / n_t for weight, (x_t, n_t, _, _) in parts)
    control = sum(weight * x_c / n_c for weight, (_, _, x_c, n_c) in parts)

    def of_difference(difference: float) -> float:
        squared = sum(weight**2 * variance_of_difference(arms, difference) for weight, arms in parts)
        return abs(treatment - control - difference) - width * math.sqrt(squared)

    def of_ratio(ratio: float) -> float:
        squared = sum(weight**2 * variance_of_ratio(arms, ratio) for weight, arms in parts)
        return abs(treatment - ratio * control) - width * math.sqrt(squared)

    estimate, ratio = treatment - control, treatment / control
    expected = [find(of_difference, estimate, float(sign)) for sign in (-1, 1)]
    assert pair.bounds_of_difference(width) == pytest.approx(expected, rel=1e-6)
    expected = [find(of_ratio, ratio, 1e-12) - 1, find(of_ratio, ratio, 1e9) - 1]
    assert lifts_of(pair, width) == pytest.approx(expected, rel=1e-6)


def test_strata__that_are_alike__have_the_interval_of_one_but_for_the_factor() -> None:
    """The factor N / (N - 1) is that of each stratum."""
    one, half = of_one((60, 1_000, 90, 3_000)), SharesOfStratum(0.5, 30, 500, 45, 1_500)
    width = 3.3
    expected = one.bounds_of_difference(width * math.sqrt(2000 / 1999 / (4000 / 3999)))
    assert Shares([half, half]).bounds_of_difference(width) == pytest.approx(expected, rel=1e-9)


def test_alike__so_many_times_the_users__have_no_difference_and_a_smaller_error() -> None:
    pair = of_one((12, 100, 180, 900))
    alike = pair.alike(4.0)
    assert (alike.treatment, alike.control, alike.users) == pytest.approx((0.192, 0.192, 4_000))
    assert alike.z_of_difference(-0.01) == pytest.approx(2 * pair.alike(1.0).z_of_difference(-0.01), rel=1e-3)
