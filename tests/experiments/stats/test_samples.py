"""Number, mean and variance from sums: ratios against gbstats, and sums that say nothing of a variance."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.stats import sequential
from experiments.stats.samples import NO_DENOMINATOR, NO_USERS, OUT_OF_RANGE, summarise
from experiments.stats.types import Sums
from tests.experiments.stats.sums import design, difference, sample, share, sums_of

CONTROL = Sums(n=1000, y=2050.0, yy=9120.5, d=5210.0, dd=40110.0, yd=14050.0)
TREATMENT = Sums(n=1040, y=2410.0, yy=11975.25, d=5300.0, dd=41000.0, yd=15500.0)


def test_summarise__ratio__has_the_variance_of_gbstats():
    # gbstats 0.8.0, RatioStatistic: mean and variance
    control, treatment = summarise("ratio", CONTROL), summarise("ratio", TREATMENT)
    assert (control.mean, control.variance) == pytest.approx((0.3934740882917466, 0.1576055537148269), rel=1e-9)
    assert (treatment.mean, treatment.variance) == pytest.approx((0.4547169811320755, 0.23556834256892314), rel=1e-9)


def test_error__of_ratios__agrees_with_gbstats():
    # gbstats 0.8.0, difference_type="absolute": SequentialTwoSidedTTest, then TwoSidedTTest
    treatment, control = summarise("ratio", TREATMENT), summarise("ratio", CONTROL)
    estimate = difference(treatment, control, design())
    assert estimate.standard_error == pytest.approx(0.019598815663598515, rel=1e-9)
    half = sequential.half_width(estimate.standard_error, float(treatment.n + control.n), tuning_size=5000, alpha=0.05)
    bounds = estimate.estimate - half, estimate.estimate + half
    assert bounds == pytest.approx((0.00010238470537141109, 0.1223834009752863), rel=1e-9)


def test_summarise__ratio_of_users__is_that_of_the_linearised_users():
    generator = np.random.default_rng(5)
    d = generator.integers(0, 9, 400).astype(float)
    y = d * generator.random(400)
    ratio = y.sum() / d.sum()
    sample = summarise("ratio", sums_of(y.tolist(), d=d.tolist()))
    assert sample.mean == pytest.approx(ratio, rel=1e-12)
    assert sample.variance == pytest.approx(((y - ratio * d) / d.mean()).var(ddof=1), rel=1e-9)


@pytest.mark.parametrize("values", [[2.5, 0.0, -4.0, 7.25], [1e100, -1e100, 3e99], [1e-100, 3e-100]])
def test_summarise__mean__is_numpys(values):
    sample = summarise("mean", sums_of(values))
    assert sample.mean == pytest.approx(np.mean(values), rel=1e-12)
    assert sample.variance == pytest.approx(np.var(values, ddof=1), rel=1e-12)


def test_summarise__share__is_the_mean_of_ones_and_zeros():
    ones = summarise("mean", sums_of([1.0] * 13 + [0.0] * 20))
    sample = summarise("share", share(13, 33))
    assert (sample.mean, sample.variance) == pytest.approx((ones.mean, ones.variance), rel=1e-12)


def test_summarise__users_who_are_all_alike__have_no_variance_in_spite_of_rounding():
    sums = sums_of([0.1] * 1000)
    assert sums.yy - sums.y**2 / sums.n != 0
    assert summarise("mean", sums).variance == 0


def test_summarise__ratio_that_all_users_share__has_no_variance_in_spite_of_rounding():
    denominators = [0.1 * number for number in range(1, 300)]
    assert (
        summarise("ratio", sums_of([0.3 * denominator for denominator in denominators], d=denominators)).variance == 0
    )


def test_summarise__small_spread_around_a_large_mean__is_still_seen():
    sample = summarise("mean", sums_of([1000.0 + at % 2 for at in range(1000)]))
    assert sample.variance == pytest.approx(0.25 * 1000 / 999, rel=1e-6)


def test_summarise__too_little_to_know__says_what_is_missing(subtests: pytest.Subtests) -> None:
    for kind, sums, expected in [
        ("mean", Sums(), NO_USERS),
        ("share", Sums(), NO_USERS),
        ("ratio", Sums(), NO_USERS),
        ("ratio", Sums(n=3, y=2.0, yy=4.0), NO_DENOMINATOR),
        ("ratio", sums_of([1e100, 1e100], d=[1e-200, 0.0]), OUT_OF_RANGE),
        ("mean", Sums(n=1, nonzero=1, y=4.0, yy=16.0), sample(1, 4.0, 0.0)),
    ]:
        with subtests.test(kind=kind):
            assert summarise(kind, sums) == expected
