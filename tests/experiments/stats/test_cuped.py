"""CUPED against the analysis of covariance, of which it is the same estimate; and where there is no history."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats as scipy_stats

from experiments.stats.analysis import analyse
from experiments.stats.cuped import DIFFERENT_BEFORE, NO_HISTORY, NOT_FOR_QUANTILES, NOT_REGISTERED, adjust
from experiments.stats.effects import NO_VARIANCE
from experiments.stats.outcomes import Decision
from experiments.stats.samples import NO_USERS, OUT_OF_RANGE
from experiments.stats.types import Measure, ReasonCode, Sums
from tests.experiments.stats.sums import design, difference, inputs, share, sums_of

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
    adjustment = adjust("mean", [SUMS])
    means = {key: sample.mean for key, sample in adjustment.strata[0].samples.items()}
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
    sample = adjust("mean", [SUMS]).strata[0].samples[key]
    assert (sample.mean, sample.variance) == pytest.approx((mean, variance), rel=1e-9)


def test_adjust__history_that_says_nothing__changes_nothing():
    y, x = [1.0, 1.0, 5.0, 5.0], [0.0, 2.0, 0.0, 2.0]
    adjustment = adjust("mean", [{"control": sums_of(y, x), "treatment": sums_of(y[::-1], x)}])
    assert (adjustment.theta, adjustment.variance_reduction) == (0, 0)
    assert adjustment.strata[0].samples["control"].mean == 3


def test_adjust__share_that_history_foretells__is_known_more_precisely():
    did = sums_of([1.0] * 40 + [0.0] * 60, [1.0] * 35 + [0.0] * 65)
    adjustment = adjust("share", [{"control": did, "treatment": did}])
    plain = 0.4 * 0.6 / 99 * 2
    adjusted = difference(adjustment.strata[0].samples["treatment"], adjustment.strata[0].samples["control"], design())
    # Correlation of the two answers of a user, by hand: (0.35 - 0.4 * 0.35)² / (0.4 * 0.6 * 0.35 * 0.65)
    assert adjustment.variance_reduction == pytest.approx(0.21**2 / (0.24 * 0.2275), rel=1e-9)
    assert adjusted.standard_error**2 == pytest.approx(plain * (1 - adjustment.variance_reduction), rel=1e-9)


def test_adjust__variant_without_users__is_left_out():
    assert set(adjust("mean", [{**SUMS, "empty": Sums()}]).strata[0].samples) == set(SUMS)


def test_adjust__nothing_to_adjust_by__says_why(subtests: pytest.Subtests) -> None:
    for kind, sums, expected in [
        ("quantile", SUMS, NOT_FOR_QUANTILES),
        ("share", {"control": share(10, 100), "treatment": share(20, 100)}, NO_HISTORY),
        ("mean", {"control": sums_of([1, 2], [3, 3]), "treatment": sums_of([1, 2], [4, 4])}, NO_HISTORY),
        ("mean", {"control": sums_of([1], [2]), "treatment": sums_of([3], [5])}, NO_HISTORY),
        ("mean", {"control": sums_of([7, 7], [1, 2]), "treatment": sums_of([7, 7], [3, 4])}, NO_VARIANCE),
        ("mean", {"control": Sums(), "treatment": Sums()}, NO_USERS),
        ("mean", {"control": sums_of([1e100, -1e100], [1e-120, 2e-120])}, OUT_OF_RANGE),
    ]:
        with subtests.test(kind=kind):
            assert adjust(kind, [sums]) == expected


RATIO = {
    key: {
        "y": [y + 1.0 for y in AFTER[key]],
        "d": [2.0 + (at % 3) for at in range(10)],
        "x": [float(x) for x in BEFORE[key]],
        "e": [1.0 + (at * 7 % 4) for at in range(10)],
    }
    for key in AFTER
}


def test_adjust__ratio__is_that_of_its_linearised_values_by_their_linearised_history():
    columns = {key: {name: np.array(values) for name, values in of.items()} for key, of in RATIO.items()}
    before = np.concatenate([of["x"] for of in columns.values()]).sum()
    users = np.concatenate([of["e"] for of in columns.values()])
    linear, history = {}, {}
    for key, of in columns.items():
        ratio = of["y"].sum() / of["d"].sum()
        linear[key] = ratio + (of["y"] - ratio * of["d"]) / of["d"].mean()
        history[key] = (of["x"] - before / users.sum() * of["e"]) / users.mean()
    xy = sum(((linear[key] - linear[key].mean()) * (history[key] - history[key].mean())).sum() for key in linear)
    theta = xy / sum(((values - values.mean()) ** 2).sum() for values in history.values())
    adjustment = adjust("ratio", [{key: sums_of(**of) for key, of in RATIO.items()}])
    assert adjustment.theta == pytest.approx(theta, rel=1e-9)
    for key, found in adjustment.strata[0].samples.items():
        users_of_variant = linear[key] - theta * history[key]
        assert found.mean == pytest.approx(users_of_variant.mean(), rel=1e-9)
        assert found.variance == pytest.approx(users_of_variant.var(ddof=1), rel=1e-9)
    everyone = sum(((values - values.mean()) ** 2).sum() for values in history.values()) / 27
    assert adjustment.strata[0].shared == pytest.approx(theta**2 * everyone / 30, rel=1e-9)


def test_adjusted_value__of_a_variant__has_the_error_of_the_mean_of_all_histories_as_well():
    adjustment = adjust("mean", [SUMS])
    squares = sum(((np.array(values) - np.mean(values)) ** 2).sum() for values in BEFORE.values())
    assert adjustment.strata[0].shared == pytest.approx(adjustment.theta**2 * squares / 27 / 30, rel=1e-9)
    found = analyse(inputs((Measure("orders", "mean"), SUMS), is_adjusted=True)).measures[0].variants[0]
    sample = adjustment.strata[0].samples["control"]
    error = (sample.squared_error + adjustment.strata[0].shared) ** 0.5
    assert found.value == sample.mean
    assert (found.interval.lower, found.interval.upper) == pytest.approx(
        scipy_stats.t.interval(0.95, 9, sample.mean, error), rel=1e-9
    )
    assert found.raw.value == pytest.approx(np.mean(AFTER["control"]))


def test_analyse__with_cuped__decides_by_the_adjusted_values_and_shows_the_raw_ones_beside_them():
    random = np.random.default_rng(3)
    sums = {}
    for key, effect in (("control", 0.0), ("treatment", 0.1)):
        habit = random.gamma(2, 1, 2000)
        sums[key] = sums_of((habit + effect + random.normal(0, 0.2, 2000)).tolist(), habit.tolist())
    raw, adjusted = (
        analyse(inputs((Measure("orders", "mean"), sums), is_adjusted=is_adjusted)) for is_adjusted in (False, True)
    )
    assert (raw.verdict.decision, adjusted.verdict.decision) == (Decision.KEEP_RUNNING, Decision.SHIP)
    shown, beside = adjusted.measures[0].variants[1], raw.measures[0].variants[1]
    assert shown.comparison.label == "better"
    assert shown.comparison.cuped.variance_reduction > 0.9
    assert (shown.raw.value, shown.raw.interval) == (beside.value, beside.interval)
    assert (shown.raw.comparison.difference, shown.raw.comparison.lift) == (
        beside.comparison.difference,
        beside.comparison.lift,
    )
    assert beside.raw is None
    assert beside.comparison.cuped == NOT_REGISTERED


def test_analyse__cuped_without_history__is_raw_and_says_why():
    sums = {"control": share(100, 900), "treatment": share(120, 900)}
    variant = analyse(inputs((Measure("signup", "share"), sums), is_adjusted=True)).measures[0].variants[1]
    assert variant.comparison.cuped == NO_HISTORY
    assert (variant.raw, variant.value) == (None, 120 / 900)


def test_before__treatment_that_differed_already__is_to_check_the_data_and_adjusts_nothing():
    after = [0.0, 1.0, 2.0, 3.0] * 250
    sums = {"control": sums_of(after, [0.0, 1.0] * 500), "treatment": sums_of(after, [1.0, 1.0, 2.0, 1.0] * 250)}
    analysis = analyse(inputs((Measure("orders", "mean"), sums), is_adjusted=True))
    compared = analysis.measures[0].variants[1]
    assert (compared.raw, compared.comparison.cuped) == (None, DIFFERENT_BEFORE)
    before = analysis.measures[0].before["treatment"]
    assert before.estimate == pytest.approx(0.75)
    assert before.fixed_horizon.p_value == pytest.approx(
        scipy_stats.ttest_ind([1.0, 1.0, 2.0, 1.0] * 250, [0.0, 1.0] * 500, equal_var=False).pvalue, rel=1e-6
    )
    assert analysis.verdict.decision == Decision.CHECK_DATA
    [warning] = analysis.verdict.reasons
    assert warning.code == ReasonCode.DIFFERENT_BEFORE
    assert warning.message.startswith(
        "orders of treatment differed from control before the exposure already (p < 0.001)"
    )
    alike = {"control": sums["control"], "treatment": sums["control"]}
    assert analyse(inputs((Measure("orders", "mean"), alike))).verdict.reasons[0].code == ReasonCode.NOT_SIGNIFICANT


def test_before__ratio__compares_the_ratios_before():
    sums = {key: sums_of(**of) for key, of in RATIO.items()}
    before = analyse(inputs((Measure("per-visit", "ratio"), sums))).measures[0].before["blue"]
    ratios = {key: sum(of["x"]) / sum(of["e"]) for key, of in RATIO.items()}
    assert before.estimate == pytest.approx(ratios["blue"] - ratios["control"])


def test_before__nobody_with_a_history__has_a_reason():
    sums = {"control": share(100, 900), "treatment": share(120, 900)}
    assert analyse(inputs((Measure("signup", "share"), sums))).measures[0].before == {"treatment": NO_HISTORY}
