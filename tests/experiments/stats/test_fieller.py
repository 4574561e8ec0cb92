"""Intervals of lifts by Fieller's theorem: their definition, open sides, and agreement with the difference."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq

from experiments.stats import effects
from experiments.stats.effects import CONTROL_IS_ZERO, OPEN, Contrast
from experiments.stats.samples import Sample
from experiments.stats.types import Estimate, Reason
from tests.experiments.stats.sums import contrast, design, lift, sample

FIXED = settings(derandomize=True, deadline=None, max_examples=500)
MEANS = st.sampled_from([1.0, 0.5, 1.0001, 3.0, 1e-9, 0.02, 250.0, 1e120])
ERRORS = st.sampled_from([0.0, 1e-12, 1e-3, 0.3, 1.0, 40.0, 1e6])


def variance(treatment: Sample, control: Sample, shared: float, ratio: float, *, is_non_negative: bool) -> float:
    """Return the larger variance of the treatment's mean minus `ratio` times the control's, by its definition."""
    users = treatment.n + control.n - 2
    of_control = (control.n - 1) * control.variance
    if is_non_negative:
        of_user = ((treatment.n - 1) * treatment.variance / ratio**2 + of_control) / users
        pooled = of_user * ratio**2 * (1 / treatment.n + 1 / control.n)
    else:
        of_user = ((treatment.n - 1) * treatment.variance + of_control) / users
        pooled = of_user * (1 / treatment.n + ratio**2 / control.n)
    welch = treatment.squared_error + ratio**2 * control.squared_error
    return max(welch, pooled) + (1 - ratio) ** 2 * shared


@pytest.mark.parametrize("is_non_negative", [False, True])
@pytest.mark.parametrize("shared", [0.0, 0.004])
@pytest.mark.parametrize(
    ("treatment", "control"),
    [
        (sample(1000, 5.5, 16.0), sample(500, 5.0, 9.0)),
        (sample(400, 0.025, 0.0244), sample(400, 0.04, 0.0385)),
        (sample(10**6, 0.0011, 0.0011), sample(10**6, 0.001, 0.001)),
        (sample(100, -8.0, 400.0), sample(100, 60.0, 40.0)),
    ],
)
def test_lift__bounded_interval__ends_where_scipy_finds_the_roots_of_the_definition(
    treatment, control, shared, is_non_negative
):
    shared *= control.squared_error
    compared = contrast(treatment, control, design(), shared, is_non_negative=is_non_negative)
    levels = effects.uncorrected(compared, design())
    found = effects.lift(compared, levels, effects.difference(compared, levels), is_non_negative=is_non_negative)
    quotient = treatment.mean / control.mean
    for test, level in ((found.always_valid, levels.always_valid), (found.fixed_horizon, levels.fixed_horizon)):

        def excess(ratio: float, width: float = level.width) -> float:
            squared = variance(treatment, control, shared, ratio, is_non_negative=is_non_negative)
            return (treatment.mean - ratio * control.mean) ** 2 - width**2 * squared

        if test.open or (is_non_negative and quotient < 0):
            continue
        reach = 100 * (abs(quotient) + 1)
        least = 1e-9 if is_non_negative else quotient - reach
        is_cut = is_non_negative and excess(least) <= 0
        lower = 0.0 if is_cut else brentq(excess, least, quotient, xtol=1e-15, rtol=1e-14)
        upper = brentq(excess, quotient, quotient + reach, xtol=1e-15, rtol=1e-14)
        assert (test.lower, test.upper) == pytest.approx((lower - 1, upper - 1), rel=1e-6)


def test_lift__control_below_0__is_1_minus_the_quotient():
    above, mirrored = (
        lift(sample(1000, sign * 8.0, 4.0), sample(1000, sign * 10.0, 9.0), design()) for sign in (-1, 1)
    )
    assert above.estimate == pytest.approx(-mirrored.estimate)
    assert above.always_valid.lower == pytest.approx(-mirrored.always_valid.upper, rel=1e-9)
    assert above.always_valid.upper == pytest.approx(-mirrored.always_valid.lower, rel=1e-9)


def test_lift__few_conversions__is_open_above_and_cut_at_minus_100_percent():
    few, none = sample(400, 2 / 400, 2 / 400), sample(400, 1 / 400, 1 / 400)
    test = lift(few, none, design(), is_non_negative=True).always_valid
    assert (test.lower, test.upper, test.open) == (-1.0, None, OPEN)
    anything = lift(few, none, design()).always_valid
    assert (anything.lower, anything.upper, anything.open) == (None, None, OPEN)


def test_lift__rise_is_shown_though_the_control_may_be_0__is_open_above_only():
    many, few = sample(400, 60 / 400, 0.13), sample(400, 2 / 400, 2 / 400)
    test = lift(many, few, design(), is_non_negative=True).always_valid
    assert (test.upper, test.open) == (None, OPEN)
    assert test.lower > 1


def test_lift__adjusted_control_below_0_of_what_cannot_be__is_a_reason():
    assert lift(sample(50, 0.02, 0.1), sample(50, -0.001, 0.1), design(), is_non_negative=True) is CONTROL_IS_ZERO


@FIXED
@given(
    *[MEANS, st.one_of(MEANS, MEANS.map(lambda mean: -mean), st.just(0.0)), ERRORS, ERRORS],
    st.sampled_from([0.0, 0.01, 1.0]),
    st.integers(2, 10**6),
    st.booleans(),
)
def test_lift__any_means__never_contradicts_the_difference(
    control, treatment, v_t, v_c, shared, users, is_non_negative
):
    treatment = abs(treatment) if is_non_negative else treatment
    samples = sample(users, treatment, v_t * users), sample(users, control, v_c * users)
    compared = contrast(*samples, design(), shared, is_non_negative=is_non_negative)
    if isinstance(compared, Reason):
        return
    assert isinstance(compared, Contrast)
    levels = effects.uncorrected(compared, design())
    difference = effects.difference(compared, levels)
    if isinstance(difference, Reason):
        return
    found = effects.lift(compared, levels, difference, is_non_negative=is_non_negative)
    if not isinstance(found, Estimate):
        return
    for of_lift, of_difference in (
        (found.always_valid, difference.always_valid),
        (found.fixed_horizon, difference.fixed_horizon),
    ):
        assert of_lift.p_value == of_difference.p_value
        assert all(math.isfinite(bound) for bound in (of_lift.lower, of_lift.upper) if bound is not None)
        if of_lift.open is None or is_non_negative:
            assert of_lift.sign == of_difference.sign
        else:
            assert of_lift.sign in (0, of_difference.sign)
        if is_non_negative:
            assert found.estimate >= -1
            assert of_lift.lower >= -1
