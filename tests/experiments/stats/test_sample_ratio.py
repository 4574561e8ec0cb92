"""Sample ratio mismatch, against published examples, SciPy's distributions, and under many looks."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from experiments.stats.sample_ratio import (
    CONCENTRATION,
    MISMATCH,
    NO_USERS,
    check,
    check_phases,
    chi_square_p,
    log_e_value,
)
from experiments.stats.types import Split, Weight

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


def phase(weights: tuple[float, float], control: int, treatment: int) -> Split:
    keys = ("control", "treatment")
    return Split(
        [Weight(*variant) for variant in zip(keys, weights, strict=True)], {"control": control, "treatment": treatment}
    )


def test_check_phases__one__is_what_check_gives():
    alone = check_phases([Split(HALVES, {"control": 15_752, "treatment": 15_257})])
    assert alone == halves(15_752, 15_257)
    assert check_phases([phase((9, 1), 0, 0), Split(HALVES, {"control": 15_752, "treatment": 15_257})]) == alone


def test_check_phases__several__adds_up_evidence_and_chi_squares_with_their_degrees_of_freedom():
    ratio = check_phases([phase((9, 1), 930, 70), phase((1, 1), 470, 530)])
    statistic = 30**2 / 900 + 30**2 / 100 + 30**2 / 500 + 30**2 / 500
    assert ratio.chi_square_p == pytest.approx(stats.chi2.sf(statistic, 2), rel=1e-9)
    evidence = log_e_value(np.array([930.0, 70.0]), np.array([0.9, 0.1])) + log_e_value(
        np.array([470.0, 530.0]), np.array([0.5, 0.5])
    )
    assert ratio.always_valid_p == pytest.approx(math.exp(-evidence), rel=1e-9)
    assert ratio.expected == pytest.approx({"control": 1400, "treatment": 600})


def test_check_phases__each_as_its_own_weights_say__is_none_where_all_users_together_would_be():
    phases = [phase((9, 1), 9_000, 1_000), phase((1, 1), 5_000, 5_000)]
    assert not check_phases(phases).is_mismatch
    assert halves(14_000, 6_000).is_mismatch
    assert check([Weight("control", 9), Weight("treatment", 1)], {"control": 14_000, "treatment": 6_000}).is_mismatch


def test_check_phases__deviations_that_cancel_out__are_a_mismatch():
    phases = [phase((1, 1), 5_400, 4_600), phase((1, 1), 4_600, 5_400)]
    assert check_phases(phases).is_mismatch
    assert not halves(10_000, 10_000).is_mismatch


def test_check_phases__user_in_a_variant_of_weight_0__is_a_mismatch_of_that_phase_only():
    first, second = phase((1, 0), 500, 1), phase((1, 1), 500, 500)
    assert check_phases([first]).is_mismatch
    assert not check_phases([second]).is_mismatch
    both = check_phases([first, second])
    assert (both.always_valid_p, both.chi_square_p, both.is_mismatch) == (0, 0, True)


def test_check_phases__all_users_wanted_in_one_variant__adds_no_degree_of_freedom():
    alone, after = halves(480, 520), check_phases([phase((1, 0), 500, 0), phase((1, 1), 480, 520)])
    assert (after.chi_square_p, after.always_valid_p) == (alone.chi_square_p, pytest.approx(alone.always_valid_p))


def test_check_phases__twenty_looks_across_two_phases_of_other_weights__errs_more_rarely_than_its_level():
    chance, experiments, users = np.random.default_rng(7), 4000, 200
    for shares in (np.array([[0.9, 0.1], [0.5, 0.5]]), np.array([[0.5, 0.5], [0.98, 0.02]])):
        looks = [
            chance.multinomial(users, share, size=(experiments, 10)).cumsum(axis=1).astype(float) for share in shares
        ]
        first, second = (log_e_value(counts, look) for counts, look in zip(looks, shares, strict=True))
        evidence = np.hstack([first, first[:, -1:] + second])
        assert evidence.shape == (experiments, 20)
        for level in (0.05, 0.01):
            assert (np.exp(-evidence).min(axis=1) < level).mean() <= level
        pooled = np.hstack([looks[0], looks[0][:, -1:] + looks[1]])
        assert (np.exp(-log_e_value(pooled, shares[-1])).min(axis=1) < 0.05).mean() > 0.99


def test_check_phases__weights_chosen_by_what_was_seen__errs_more_rarely_than_its_level():
    """Opening a phase at a favourable moment, with weights that fit the split, does not raise the error rate."""
    chance, level = np.random.default_rng(3), 0.05
    first = chance.multinomial(100, [0.5, 0.5], size=(4000, 10)).cumsum(axis=1).astype(float)
    before = log_e_value(first, np.array([0.5, 0.5]))
    skewed = np.clip(first[:, -1, 0] / 1000 * 2 - 0.5, 0.05, 0.95)  # twice as far from a half as the users are
    errors = 0
    for evidence, share in zip(before, skewed, strict=True):
        shares = np.array([share, 1 - share])
        second = chance.multinomial(100, shares, size=10).cumsum(axis=0).astype(float)
        errors += bool(np.exp(-np.hstack([evidence, evidence[-1] + log_e_value(second, shares)])).min() < level)
    assert errors / len(before) <= level


def test_check_phases__single_look__is_decided_by_pearsons_test():
    splits = [phase((1, 1), 10_000, 10_650)]
    over_looks, at_one = check_phases(splits), check_phases(splits, is_single_look=True)
    assert (over_looks.is_mismatch, at_one.is_mismatch) == (False, True)
    assert at_one.always_valid_p > MISMATCH > at_one.chi_square_p
    assert at_one.chi_square_p == pytest.approx(stats.chisquare([10_000, 10_650]).pvalue, rel=1e-9)
