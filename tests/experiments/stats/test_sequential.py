"""The confidence sequence, against the paper's formula, against another implementation, and under many looks."""

from __future__ import annotations

import math

import numpy as np
import pytest

from experiments.stats.samples import summarise
from experiments.stats.sequential import half_width, log_e_value, mixture_variance, p_value
from experiments.stats.types import Sums
from tests.experiments.stats.sums import design, difference

CONTROL = Sums(n=1000, y=2050.0, yy=9120.5)
TREATMENT = Sums(n=1040, y=2410.0, yy=11975.25)


@pytest.mark.parametrize("alpha", [0.01, 0.05, 0.2])
@pytest.mark.parametrize("users", [2, 200, 5000, 10**7])
def test_sequence__any_size_and_level__is_the_formula_of_the_paper(users, alpha):
    squared_rho = (-2 * math.log(alpha) + math.log(-2 * math.log(alpha) + 1)) / 5000
    deviation, spread = 0.25 * math.sqrt(users), users * squared_rho + 1
    inner = 2 * spread / (users**2 * squared_rho) * math.log(math.sqrt(spread) / alpha)
    evidence = math.exp(squared_rho * users * 0.6**2 / (2 * 0.25**2 * spread)) / math.sqrt(spread)
    width = half_width(0.25, users, tuning_size=5000, alpha=alpha)
    assert width == pytest.approx(deviation * math.sqrt(inner), rel=1e-9)
    p = p_value(0.6 / 0.25, users, tuning_size=5000, alpha=alpha)
    assert p == pytest.approx(min(1.0, 1 / evidence), rel=1e-9)
    assert log_e_value(0.6 / 0.25, users, tuning_size=5000, alpha=alpha) == pytest.approx(math.log(evidence), rel=1e-9)


ESTIMATE, ERROR, USERS = 0.2673076923076927, 0.10410101630342586, TREATMENT.n + CONTROL.n


@pytest.mark.parametrize(
    ("tuning_size", "alpha", "interval", "p"),
    [
        # gbstats 0.8.0, SequentialTwoSidedTTest of two SampleMeanStatistic, difference_type="absolute"
        (5000, 0.05, (-0.0574460654399484, 0.5920614500553338), 0.16583181932877025),
        # The same with sequential_tuning_parameter=600, alpha=0.01
        (600, 0.01, (-0.111391834296724, 0.6460072189121093), 0.2547093257606346),
    ],
)
def test_interval_and_p_value__of_gbstats__agree(tuning_size, alpha, interval, p):
    estimate = difference(summarise("mean", TREATMENT), summarise("mean", CONTROL), design())
    assert estimate.estimate == pytest.approx(ESTIMATE, rel=1e-9)
    assert estimate.standard_error == pytest.approx(ERROR, rel=1e-9)
    half = half_width(ERROR, USERS, tuning_size=tuning_size, alpha=alpha)
    assert (ESTIMATE - half, ESTIMATE + half) == pytest.approx(interval, rel=1e-9)
    assert p_value(ESTIMATE / ERROR, USERS, tuning_size=tuning_size, alpha=alpha) == pytest.approx(p, rel=1e-9)


@pytest.mark.parametrize("users", [10, 4000, 10**6])
@pytest.mark.parametrize("alpha", [0.01, 0.05])
def test_interval__as_wide_as_the_estimate__has_the_level_as_p_value(users, alpha):
    edge = half_width(1.0, users, tuning_size=5000, alpha=alpha)
    assert p_value(edge, users, tuning_size=5000, alpha=alpha) == pytest.approx(alpha, rel=1e-9)


def test_interval__of_several_comparisons__is_that_of_bonferroni_with_the_same_tuning():
    edge = half_width(1.0, 3000, tuning_size=5000, alpha=0.05, comparisons=4)
    assert p_value(edge, 3000, tuning_size=5000, alpha=0.05) == pytest.approx(0.05 / 4, rel=1e-9)


def test_interval__at_the_tuning_size__is_narrower_than_one_tuned_to_another():
    tuned = half_width(1.0, 5000, tuning_size=5000, alpha=0.05)
    assert all(half_width(1.0, 5000, tuning_size=other, alpha=0.05) > tuned for other in (1000, 4000, 6000, 25000))


def test_mixture_variance__five_percent_and_5000_users__value_of_gbstats():
    # gbstats 0.8.0: SequentialTwoSidedTTest.rho ** 2 with sequential_tuning_parameter=5000, alpha=0.05
    assert mixture_variance(5000, 0.05) == pytest.approx(0.0015872309203475132, rel=1e-9)


def test_p_value__hundred_looks_at_nothing__is_below_the_level_in_fewer_runs_than_the_level():
    draws = np.random.default_rng(20260101).standard_normal((2000, 100, 50))
    means = draws.sum(axis=2).cumsum(axis=1) / (looks := np.arange(1, 101) * 50.0)
    z = means * np.sqrt(looks)
    always = p_value(z, np.broadcast_to(looks, z.shape), tuning_size=5000, alpha=0.05).min(axis=1)
    assert (always < 0.05).mean() <= 0.05
    assert (np.abs(z).max(axis=1) > 1.96).mean() > 0.2  # what looking does to the test for one look
