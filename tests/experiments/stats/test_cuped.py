"""CUPED against the analysis of covariance, of which it is the same estimate; and where there is no history."""

from __future__ import annotations

import pytest

from experiments.stats.cuped import NO_HISTORY, NOT_FOR_RATIOS, adjust
from experiments.stats.effects import NO_VARIANCE, difference
from experiments.stats.samples import NO_USERS, OUT_OF_RANGE
from experiments.stats.types import Sums
from tests.experiments.stats.sums import design, share, sums_of

BEFORE = {
    "control": [0, 3, 1, 4, 2, 5, 1, 0, 2, 6],
    "blue": [1, 2, 0, 5, 3, 4, 2, 1, 7, 0],
    "red": [2, 1, 1, 3, 6, 0, 4, 2, 5, 3],
}
AFTER = {
    "control": [1, 4, 2, 5, 2, 7, 2, 1, 3, 6],
    "blue": [3, 4, 1, 8, 4, 6, 3, 2, 9, 1],
    "red": [2, 3, 1, 4, 8, 0, 6, 3, 6, 3],
}
SUMS = {key: sums_of(AFTER[key], BEFORE[key]) for key in AFTER}


def test_adjust__three_variants__is_the_analysis_of_covariance_of_statsmodels():
    # statsmodels 0.15.0: OLS(y, [1, is_blue, is_red, x]) gives params[3], params[1] and params[2]; the reduction is
    # 1 - ssr / ssr of the same without x.
    adjustment = adjust("mean", SUMS)
    means = {key: sample.mean for key, sample in adjustment.samples.items()}
    assert adjustment.theta == pytest.approx(1.1376068376068378, rel=1e-9)
    assert means["blue"] - means["control"] == pytest.approx(0.6862393162393159, rel=1e-9)
    assert means["red"] - means["control"] == pytest.approx(-0.04128205128205198, rel=1e-9)
    assert adjustment.variance_reduction == pytest.approx(0.9266552636809675, rel=1e-9)


@pytest.mark.parametrize(
    ("key", "mean", "variance"),
    [  # NumPy 2.4.6: mean and var(ddof=1) of y - theta * (x - mean of all x)
        ("control", 3.4516809116809113, 0.4213618720627269),
        ("blue", 4.137920227920228, 0.3115093627486788),
        ("red", 3.4103988603988604, 0.5987432001363626),
    ],
)
def test_adjust__three_variants__has_the_mean_and_variance_of_the_adjusted_users(key, mean, variance):
    sample = adjust("mean", SUMS).samples[key]
    assert (sample.mean, sample.variance) == pytest.approx((mean, variance), rel=1e-9)


def test_adjust__history_that_says_nothing__changes_nothing():
    y, x = [1.0, 1.0, 5.0, 5.0], [0.0, 2.0, 0.0, 2.0]
    adjustment = adjust("mean", {"control": sums_of(y, x), "treatment": sums_of(y[::-1], x)})
    assert (adjustment.theta, adjustment.variance_reduction) == (0, 0)
    assert adjustment.samples["control"].mean == 3


def test_adjust__share_that_history_foretells__is_known_more_precisely():
    did = sums_of([1.0] * 40 + [0.0] * 60, [1.0] * 35 + [0.0] * 65)
    adjustment = adjust("share", {"control": did, "treatment": did})
    plain = 0.4 * 0.6 / 99 * 2
    adjusted = difference(adjustment.samples["treatment"], adjustment.samples["control"], design())
    # Correlation of the two answers of a user, by hand: (0.35 - 0.4 * 0.35)² / (0.4 * 0.6 * 0.35 * 0.65)
    assert adjustment.variance_reduction == pytest.approx(0.21**2 / (0.24 * 0.2275), rel=1e-9)
    assert adjusted.standard_error**2 == pytest.approx(plain * (1 - adjustment.variance_reduction), rel=1e-9)


def test_adjust__variant_without_users__is_left_out():
    assert set(adjust("mean", {**SUMS, "empty": Sums()}).samples) == set(SUMS)


@pytest.mark.parametrize(
    ("kind", "sums", "expected"),
    [
        ("ratio", SUMS, NOT_FOR_RATIOS),
        ("share", {"control": share(10, 100), "treatment": share(20, 100)}, NO_HISTORY),
        ("mean", {"control": sums_of([1, 2], [3, 3]), "treatment": sums_of([1, 2], [4, 4])}, NO_HISTORY),
        ("mean", {"control": sums_of([1], [2]), "treatment": sums_of([3], [5])}, NO_HISTORY),
        ("mean", {"control": sums_of([7, 7], [1, 2]), "treatment": sums_of([7, 7], [3, 4])}, NO_VARIANCE),
        ("mean", {"control": Sums(), "treatment": Sums()}, NO_USERS),
        ("mean", {"control": sums_of([1e100, -1e100], [1e-120, 2e-120])}, OUT_OF_RANGE),
    ],
)
def test_adjust__nothing_to_adjust_by__says_why(kind, sums, expected):
    assert adjust(kind, sums) == expected
