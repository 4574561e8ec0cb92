"""The correction for the winner's curse, against simulations whose true effects are known, and at its edges."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import cauchy, norm

from experiments.stats.lifts import Lift, MeasuredEffect
from experiments.stats.winners_curse import Portfolio

Z = 1.959964


def portfolio(measured: Any, errors: Any) -> Portfolio:
    """From values on the scale of the logarithm."""
    pairs = zip(np.expm1(measured), errors, strict=True)
    return Portfolio([MeasuredEffect(float(lift), float(error)) for lift, error in pairs])


def logs(lift: Lift | None) -> tuple[float, float, float]:
    assert lift is not None
    return math.log1p(lift.estimate), math.log1p(lift.lower), math.log1p(lift.upper)


@pytest.mark.parametrize(("spread", "mean"), [(0.0, 0.0), (0.01, 0.0), (0.03, 0.0), (0.02, 0.02)])
def test_correction__of_chosen_winners__has_no_bias_and_covers_the_truth(spread: float, mean: float) -> None:
    random = np.random.default_rng(19)
    measured_bias, corrected_bias, covered = [], [], []
    for _ in range(60):
        truth = random.normal(mean, spread, 30)
        errors = random.uniform(0.01, 0.03, 30)
        measured = random.normal(truth, errors)
        chosen = np.flatnonzero(measured > Z * errors)
        found = portfolio(measured, errors)
        for index in chosen:
            estimate, lower, upper = logs(found.corrected([int(index)]))
            measured_bias.append(measured[index] - truth[index])
            corrected_bias.append(estimate - truth[index])
            covered.append(lower <= truth[index] <= upper)
    assert np.mean(measured_bias) > 0.004
    assert abs(np.mean(corrected_bias)) < 0.2 * np.mean(measured_bias)
    assert np.mean(covered) > 0.92


def test_correction__of_experiments_stopped_when_they_looked_good__has_little_bias() -> None:
    """Each is looked at ten times, and stopped at the first look at which it seems significant."""
    random = np.random.default_rng(7)
    measured_bias, corrected_bias = [], []
    for _ in range(60):
        truth = random.normal(0, 0.02, 30)
        sums = np.cumsum(random.normal(truth[:, None], 0.06, (30, 10)), axis=1)
        looks = np.arange(1, 11)
        values, errors = sums / looks, 0.06 / np.sqrt(looks)
        is_good = values > Z * errors
        ends = np.where(is_good.any(axis=1), is_good.argmax(axis=1), 9)
        measured, stopped_errors = values[np.arange(30), ends], errors[ends]
        found = portfolio(measured, stopped_errors)
        for index in np.flatnonzero(is_good.any(axis=1)):
            measured_bias.append(measured[index] - truth[index])
            corrected_bias.append(logs(found.corrected([int(index)]))[0] - truth[index])
    assert np.mean(measured_bias) > 0.02
    assert abs(np.mean(corrected_bias)) < 0.15 * np.mean(measured_bias)


def test_average__of_all_that_were_shipped__covers_the_average_of_their_true_effects() -> None:
    random = np.random.default_rng(3)
    covered, measured_covered = [], []
    for _ in range(200):
        truth = random.normal(0.0, 0.015, 25)
        errors = np.full(25, 0.015)
        measured = random.normal(truth, errors)
        chosen = [int(index) for index in np.argsort(measured)[-8:]]
        found = portfolio(measured, errors)
        _, lower, upper = logs(found.corrected(chosen))
        covered.append(lower <= truth[chosen].mean() <= upper)
        _, lower, upper = logs(found.measured(chosen))
        measured_covered.append(lower <= truth[chosen].mean() <= upper)
    assert np.mean(covered) > 0.92
    assert np.mean(measured_covered) < 0.5


def test_correction__agrees_with_integration_by_another_rule() -> None:
    """The eight schools of Gelman's book, in hundredths, with the prior of this module, by a fine grid of tau."""
    effects = np.array([28.39, 7.94, -2.75, 6.82, -0.64, 0.63, 18.01, 12.16]) / 100
    errors = np.array([14.9, 10.2, 16.3, 11.0, 9.4, 11.4, 10.4, 17.6]) / 100
    tau = np.linspace(1e-6, 40, 800_000)
    spreads = np.sqrt(errors[:, None] ** 2 + tau**2)
    density = cauchy.pdf(tau, scale=0.1) * norm.pdf(effects[:, None], scale=spreads).prod(axis=0)
    probability = density / density.sum()
    found = portfolio(effects, errors)
    for index in range(8):
        expected = (probability * effects[index] * tau**2 / spreads[index] ** 2).sum()
        assert logs(found.corrected([index]))[0] == pytest.approx(expected, abs=2e-5)


def test_correction__any_effects__never_moves_one_away_from_0() -> None:
    random = np.random.default_rng(5)
    for _ in range(40):
        number = int(random.integers(3, 30))
        errors = random.lognormal(-3.5, 1.5, number)
        measured = random.normal(random.normal(0, 0.1), random.uniform(0, 0.2), number) + random.normal(0, errors)
        found = portfolio(measured, errors)
        for index in range(number):
            estimate, lower, upper = logs(found.corrected([index]))
            assert lower < estimate < upper
            assert 0 <= estimate / measured[index] <= 1 + 1e-9


def test_correction__of_an_effect_that_is_smaller_than_the_others__does_not_make_it_larger() -> None:
    """With a learned mean, +3.59 % among effects of about 12 % was corrected to +7.04 %."""
    found = portfolio(np.log1p([0.0359, 0.12, 0.11, 0.13, 0.12]), [0.03] * 5)
    corrected = found.corrected([0])
    assert corrected is not None
    assert 0 < corrected.estimate < 0.0359


def test_correction__without_differences__moves_everything_to_0() -> None:
    found = portfolio([0.05, -0.03, 0.01, 0.02, -0.01, 0.02], [0.05] * 6)
    estimates = [logs(found.corrected([index]))[0] for index in range(6)]
    assert max(map(abs, estimates)) < 0.25 * 0.05
    together = logs(found.corrected(range(6)))[0]
    assert together == pytest.approx(np.mean(estimates), abs=1e-9)


def test_correction__of_large_true_differences__hardly_moves_anything() -> None:
    found = portfolio([0.3, -0.2, 0.1, 0.5], [0.001] * 4)
    assert logs(found.corrected([3])) == pytest.approx((0.5, 0.5 - Z * 0.001, 0.5 + Z * 0.001), abs=1e-4)


def test_correction__of_less_certain_effects__moves_them_further() -> None:
    found = portfolio([0.04, 0.04, -0.02, 0.0, 0.01], [0.005, 0.04, 0.01, 0.01, 0.01])
    precise, vague = (logs(found.corrected([index]))[0] for index in (0, 1))
    assert vague < precise < 0.04


@pytest.mark.parametrize("number", [1, 2])
def test_correction__of_too_few_effects__is_none_and_the_measured_average_stays(number: int) -> None:
    found = portfolio([0.04] * number, [0.01] * number)
    assert found.corrected(range(number)) is None
    error = 0.01 / math.sqrt(number)
    assert logs(found.measured(range(number))) == pytest.approx((0.04, 0.04 - Z * error, 0.04 + Z * error))
