"""Sample ratio mismatch, against published examples, SciPy's distributions, and under many looks."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from experiments.stats.sample_ratio import CONCENTRATION, NO_USERS, check, chi_square_p, log_e_value
from experiments.stats.types import Weight

HALVES = [Weight("control", 1), Weight("treatment", 1)]


def halves(control: int, treatment: int):
    return check(HALVES, {"control": control, "treatment": treatment})


def test_check__example_of_kohavi__is_a_mismatch():
    # Kohavi, Tang & Xu 2020, "Trustworthy Online Controlled Experiments", chapter 3: 821,588 against 815,482 users,
    # p = 1.8E-6. The next digits are those of scipy.stats.chisquare of SciPy 1.17.1.
    ratio = halves(821_588, 815_482)
    assert ratio.chi_square_p == pytest.approx(1.8217928726191858e-06, rel=1e-9)
    assert ratio.is_mismatch


def test_check__half_a_percent_too_many_of_few__is_none():
    # SciPy 1.17.1, chisquare([15752, 15257])
    ratio = halves(15_752, 15_257)
    assert ratio.chi_square_p == pytest.approx(0.0049387316157770466, rel=1e-9)
    assert not ratio.is_mismatch


@pytest.mark.parametrize(("control", "treatment"), [(600, 400), (140, 60), (5_300, 4_700), (25, 0)])
def test_check__gross_mismatch_of_few_users__is_seen(control, treatment):
    assert halves(control, treatment).is_mismatch


@pytest.mark.parametrize(("control", "treatment"), [(0, 1), (3, 3), (520, 480), (500_500, 499_500)])
def test_check__split_as_chance_has_it__is_none(control, treatment):
    ratio = halves(control, treatment)
    assert not ratio.is_mismatch
    assert ratio.always_valid_p >= min(1, ratio.chi_square_p)


@pytest.mark.parametrize("counts", [(30, 20, 50), (0, 0, 1), (400, 210, 390), (123_456, 60_000, 120_000)])
def test_log_e_value__three_variants__is_the_ratio_of_scipys_probabilities(counts):
    shares = np.array([0.4, 0.2, 0.4])
    total = sum(counts)
    null = stats.multinomial.logpmf(counts, total, shares)
    flat = stats.dirichlet_multinomial.logpmf(counts, np.ones(3), total)
    concentrated = stats.dirichlet_multinomial.logpmf(counts, CONCENTRATION * shares, total)
    expected = np.logaddexp(flat, concentrated) - math.log(2) - null
    assert log_e_value(np.array(counts, float), shares) == pytest.approx(expected, rel=1e-6, abs=1e-6)


def test_log_e_value__no_users_yet__is_no_evidence():
    assert log_e_value(np.zeros(3), np.array([0.5, 0.25, 0.25])) == pytest.approx(0, abs=1e-9)


def test_log_e_value__average_over_what_chance_may_bring__is_one():
    shares = np.array([0.3, 0.7])
    counts = np.array([[at, 40.0 - at] for at in range(41)])
    chances = stats.binom.pmf(counts[:, 0], 40, 0.3)
    assert chances @ np.exp(log_e_value(counts, shares)) == pytest.approx(1, rel=1e-9)


def test_check__looked_at_after_every_hundred_users__errs_more_rarely_than_its_level_and_chi_square_more_often():
    arrivals = np.random.default_rng(11).multinomial(100, [0.5, 0.3, 0.2], size=(2000, 100))
    counts, shares = arrivals.cumsum(axis=1).astype(float), np.array([0.5, 0.3, 0.2])
    assert (np.exp(-log_e_value(counts, shares)).min(axis=1) < 0.05).mean() <= 0.05
    assert (chi_square_p(counts, shares).min(axis=1) < 0.05).mean() > 0.2


@pytest.mark.parametrize("weights", [(1, 2, 1), (0.25, 0.5, 0.25), (1e300, 2e300, 1e300), (1e-300, 2e-300, 1e-300)])
def test_check__weights_in_any_unit__mean_the_same(weights):
    ratio = check(
        [Weight(key, weight) for key, weight in zip("abc", weights, strict=True)], {"a": 240, "b": 520, "c": 240}
    )
    assert ratio.expected == pytest.approx({"a": 250, "b": 500, "c": 250})
    assert ratio.chi_square_p == pytest.approx(stats.chisquare([240, 520, 240], [250, 500, 250]).pvalue, rel=1e-9)


def test_check__weight_of_0_and_no_users_there__is_as_if_the_variant_were_not():
    ratio = check([*HALVES, Weight("off", 0)], {"control": 480, "treatment": 520})
    without = halves(480, 520)
    assert (ratio.chi_square_p, ratio.always_valid_p) == (without.chi_square_p, without.always_valid_p)
    assert ratio.expected == {"control": 500, "treatment": 500, "off": 0}


def test_check__user_in_a_variant_of_weight_0__is_a_mismatch():
    ratio = check([*HALVES, Weight("off", 0)], {"control": 480, "treatment": 520, "off": 1})
    assert (ratio.chi_square_p, ratio.always_valid_p, ratio.is_mismatch) == (0, 0, True)


def test_check__all_users_wanted_in_one_variant__is_no_mismatch_when_they_are():
    ratio = check([Weight("control", 3), Weight("off", 0)], {"control": 1000})
    assert (ratio.chi_square_p, ratio.always_valid_p, ratio.is_mismatch) == (1, pytest.approx(1), False)


def test_check__nobody__has_no_ratio():
    assert check(HALVES, {}) is NO_USERS
