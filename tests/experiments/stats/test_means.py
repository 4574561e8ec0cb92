"""Intervals of means by the larger of two variances, against SciPy's roots of their definition."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq

from experiments.stats.means import Means, MeansOfStratum
from experiments.stats.samples import Sample
from tests.experiments.stats.sums import sample

FIXED = settings(derandomize=True, deadline=None, max_examples=300)
WIDTHS = [1.96, 3.3]
Stratum = tuple[float, Sample, Sample]
ONE: Sequence[Stratum] = [(1.0, sample(1_000, 5.5, 16.0), sample(9_000, 5.0, 9.0))]
TWO: Sequence[Stratum] = [
    (0.4, sample(500, 6.0, 4.0), sample(49_500, 5.0, 90.0)),
    (0.6, sample(2_000, 2.0, 30.0), sample(2_000, 1.5, 10.0)),
]


def means_of(strata: Sequence[Stratum], *, is_non_negative: bool = True) -> Means:
    treatment, control = (sum(part[0] * part[arm].mean for part in strata) for arm in (1, 2))
    parts = [MeansOfStratum(*part, 0.0, is_non_negative) for part in strata]
    return Means(treatment, control, parts, is_non_negative)


def variance_of_user(treatment: Sample, control: Sample, ratio: float) -> float:
    squares = (treatment.n - 1) * treatment.variance / ratio**2 + (control.n - 1) * control.variance
    return squares / (treatment.n + control.n - 2)


def variance_of_difference(strata: Sequence[Stratum], ratio: float) -> float:
    total = 0.0
    for weight, treatment, control in strata:
        welch = treatment.variance / treatment.n + control.variance / control.n
        of_user = variance_of_user(treatment, control, ratio)
        total += weight**2 * max(welch, of_user * (ratio**2 / treatment.n + 1 / control.n))
    return total


def variance_of_ratio(strata: Sequence[Stratum], ratio: float) -> float:
    total = 0.0
    for weight, treatment, control in strata:
        welch = treatment.variance / treatment.n + ratio**2 * control.variance / control.n
        of_user = variance_of_user(treatment, control, ratio)
        total += weight**2 * max(welch, of_user * ratio**2 * (1 / treatment.n + 1 / control.n))
    return total


def roots(excess: Callable[[float], float], estimate: float, reach: float) -> list[float]:
    return [brentq(excess, estimate, estimate + sign * reach, xtol=1e-15, rtol=1e-14) for sign in (-1, 1)]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("strata", [ONE, TWO], ids=["one", "two"])
def test_difference__bounds__are_the_roots_of_the_definition(strata: Sequence[Stratum], width: float) -> None:
    pair = means_of(strata)

    def excess(difference: float) -> float:
        variance = variance_of_difference(strata, 1 + difference / pair.control)
        return abs(pair.difference - difference) - width * math.sqrt(variance)

    expected = roots(excess, pair.difference, 0.6 * pair.control)
    assert pair.bounds_of_difference(width) == pytest.approx(expected, rel=1e-6)
    error = math.sqrt(variance_of_difference(strata, 1.0))
    assert pair.z_of_difference(0.0) == pytest.approx(pair.difference / error, rel=1e-9)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("strata", [ONE, TWO], ids=["one", "two"])
def test_lift__bounds__are_the_roots_of_the_definition(strata: Sequence[Stratum], width: float) -> None:
    pair = means_of(strata)

    def excess(lift: float) -> float:
        distance = abs(pair.treatment - (1 + lift) * pair.control)
        return distance - width * math.sqrt(variance_of_ratio(strata, 1 + lift))

    lower, upper = roots(excess, pair.treatment / pair.control - 1, 0.9)
    assert pair.bounds_of_lift(width) == pytest.approx((lower, upper), rel=1e-6)
    for lift in (lower, upper):
        assert abs(pair.z_of_ratio(1 + lift)) == pytest.approx(width, rel=1e-6)


@pytest.mark.parametrize("width", WIDTHS)
def test_difference__values_of_both_signs__has_the_larger_variance_without_a_difference(width: float) -> None:
    pair = means_of(TWO, is_non_negative=False)
    half = width * math.sqrt(variance_of_difference(TWO, 1.0))
    assert pair.bounds_of_difference(width) == pytest.approx((pair.difference - half, pair.difference + half))


def test_difference__few_users__has_a_bound_though_no_multiple_is_excluded() -> None:
    """Of 100 users, every multiple of the control's mean is possible. The lift is open, the difference is not."""
    strata = [(1.0, sample(100, 0.08, 0.4), sample(9_900, 0.05, 0.2))]
    pair, width = means_of(strata), 3.5
    added = pair.difference + width * math.sqrt(variance_of_difference(strata, 1.0))
    larger = math.sqrt(variance_of_difference(strata, 1 + added / pair.control))
    lower, upper = pair.bounds_of_difference(width)
    assert upper == pytest.approx(pair.difference + width * larger, rel=1e-9)
    assert upper > added
    assert pair.bounds_of_lift(width) == (-1.0, None)
    assert lower < pair.difference


def test_alike__so_many_times_the_users__has_all_users_variance() -> None:
    alike = means_of(ONE, is_non_negative=False).alike(4.0)
    mean, variance = 0.1 * 5.5 + 0.9 * 5.0, 0.1 * 16.0 + 0.9 * 9.0
    assert (alike.treatment, alike.control) == pytest.approx((mean, mean))
    assert alike.z_of_difference(0.1) == pytest.approx(-0.1 / math.sqrt(variance / 4_000 + variance / 36_000), rel=1e-3)


SAMPLES = st.builds(
    sample,
    st.sampled_from([2, 30, 1_000, 10**6]),
    st.sampled_from([0.0, 1e-9, 0.02, 1.0, 1.1, 300.0]),
    st.sampled_from([0.0, 1e-12, 0.3, 5.0, 1e6]),
)


@FIXED
@given(st.lists(st.tuples(SAMPLES, SAMPLES), min_size=1, max_size=3), st.sampled_from(WIDTHS), st.booleans())
def test_bounds__any_values__are_found_and_agree_with_the_test(
    strata: list[tuple[Sample, Sample]], width: float, is_non_negative: bool
) -> None:
    pair = means_of([(1 / len(strata), *part) for part in strata], is_non_negative=is_non_negative)
    if not any(part.variance for both in strata for part in both):
        return
    lower, upper = pair.bounds_of_difference(width)
    assert lower <= pair.difference <= upper
    z = pair.z_of_difference(0.0)
    if abs(abs(z) - width) > 1e-6:
        assert (lower > 0 or upper < 0) == (abs(z) > width)
    bounds = pair.bounds_of_lift(width) if pair.control else None
    if bounds:
        lift = pair.treatment / pair.control - 1
        assert bounds[0] is None or bounds[0] <= lift + 1e-9
        assert bounds[1] is None or bounds[1] >= lift - 1e-9 * abs(lift)
