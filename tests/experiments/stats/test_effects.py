"""Differences and lifts in difficult cases: a control at or below 0, single users, no variance."""

from __future__ import annotations

import pytest

from experiments.stats.effects import CONTROL_IS_ZERO, NO_VARIANCE, ONE_USER
from experiments.stats.samples import OUT_OF_RANGE, summarise
from tests.experiments.stats.sums import design, difference, lift, sample, share, sums_of


def test_lift__control_below_zero__has_the_sign_of_the_difference():
    treatment, control = sample(100, -8.0, 4.0), sample(100, -10.0, 4.0)
    above, below = lift(treatment, control, design()), lift(control, treatment, design())
    assert (above.estimate, below.estimate) == pytest.approx((0.2, -0.25))
    mirrored = lift(sample(100, 12.0, 4.0), sample(100, 10.0, 4.0), design())
    assert above.estimate == pytest.approx(mirrored.estimate)
    assert above.standard_error is None


@pytest.mark.parametrize("mean", [0.0, 5e-324, -1e-200])
def test_lift__control_at_zero__cannot_be_had_though_the_difference_can(mean):
    treatment, control = sample(100, 2.0, 4.0), sample(100, mean, 4.0)
    assert lift(treatment, control, design()) is CONTROL_IS_ZERO
    assert difference(treatment, control, design()).estimate == pytest.approx(2.0)


def test_lift__control_that_is_0_but_for_rounding__cannot_be_had():
    control = sums_of([0.1, 0.2, -0.3] * 60 + [0.0] * 20)
    assert control.y != 0
    treatment = summarise("mean", sums_of([1.0, 2.0] * 100))
    assert lift(treatment, summarise("mean", control), design()) is CONTROL_IS_ZERO


def test_lift__control_ever_so_little_above_rounding__is_had():
    control = summarise("mean", sums_of([0.1, 0.2, -0.3] * 60 + [0.0] * 19 + [1e-9]))
    assert lift(sample(200, 1.5, 0.25), control, design()).estimate == pytest.approx(1.5 / 5e-12, rel=1e-4)


def test_lift__single_conversion_among_very_many_users__is_had():
    control = summarise("share", share(1, 10**9))
    assert lift(summarise("share", share(3, 10**9)), control, design()).estimate == pytest.approx(2)


def test_lift__treatment_at_zero__has_an_upper_bound():
    """Zero is no multiple of anything, so the control's variance is taken for that of the treatment, too."""
    found = lift(sample(100, 0.0, 0.0), sample(1000, 0.1, 0.09), design(), is_non_negative=True)
    assert (found.estimate, found.fixed_horizon.lower) == (-1, -1)
    assert -0.5 < found.fixed_horizon.upper < 0


@pytest.mark.parametrize(("treatment", "control"), [(1, 50), (50, 1), (1, 1)])
def test_difference__single_user__cannot_be_had(treatment, control):
    samples = sample(treatment, 3.0, 1.0), sample(control, 2.0, 1.0)
    assert difference(*samples, design()) is ONE_USER
    assert lift(*samples, design()) is ONE_USER


def test_difference__no_variance_at_all__cannot_be_had():
    assert difference(sample(50, 3.0, 0.0), sample(50, 2.0, 0.0), design()) is NO_VARIANCE


def test_difference__no_variance_in_one_variant__has_the_error_of_the_other():
    estimate = difference(sample(50, 3.0, 0.0), sample(50, 2.0, 8.0), design())
    assert estimate.standard_error == pytest.approx(0.4)


def test_difference__variances_that_add_to_infinity__are_out_of_range():
    assert difference(sample(2, 0.0, 1.7e300), sample(2, 0.0, 1.9e299), design()).standard_error > 0
    assert difference(sample(1 + 1, 1e308, 1.0), sample(2, -1e308, 1.0), design()) is OUT_OF_RANGE
