"""Chance to beat control and expected loss, against exact sums, closed forms and other integrals."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from math import comb

import pytest
from scipy import integrate, stats

from experiments.stats.bayes import Beta, Choice, choose_mean, choose_share


def chance_exactly(control: Beta, treatment: Beta) -> Fraction:
    """P(treatment > control), in whole numbers.

    Miller 2014, "Formulas for Bayesian A/B Testing" (evanmiller.org/bayesian-ab-testing.html), equation 6, with beta
    functions of whole numbers as factorials.
    """
    a, b, c, d = (int(number) for number in (control.a, control.b, treatment.a, treatment.b))
    return sum(
        (_beta(a + at, b + d) / ((d + at) * _beta(1 + at, d) * _beta(a, b)) for at in range(c)), start=Fraction(0)
    )


def _beta(a: int, b: int) -> Fraction:
    return Fraction(a + b, a * b * comb(a + b, a))


def loss_exactly(control: Beta, treatment: Beta) -> Fraction:
    """E[max(0, control - treatment)], by the same sum with one more conversion on either side (the same, section 4)."""
    a, b, c, d = (int(number) for number in (control.a, control.b, treatment.a, treatment.b))
    of_control = Fraction(a, a + b) * (1 - chance_exactly(Beta(a + 1, b), treatment))
    return of_control - Fraction(c, c + d) * (1 - chance_exactly(control, Beta(c + 1, d)))


CASES = [
    ((0, 0), (0, 0)),
    ((0, 1), (1, 1)),
    ((2, 3), (2, 3)),
    ((10, 100), (15, 100)),
    ((40, 400), (12, 60)),
    ((0, 300), (0, 10)),
    ((0, 10), (5, 500)),
    ((399, 400), (400, 400)),
    ((30, 400), (60, 380)),
]


def test_choose_share__larger_is_better__agrees_with_the_exact_sum(subtests: pytest.Subtests) -> None:
    for control, treatment in CASES:
        with subtests.test(control=control):
            before, after = Beta.after(*control), Beta.after(*treatment)
            choice = choose_share(after, before, is_decrease_good=False)
            assert choice.chance_to_beat == pytest.approx(float(chance_exactly(before, after)), rel=1e-9)
            assert choice.expected_loss == pytest.approx(float(loss_exactly(before, after)), rel=1e-9)


def test_choose_share__smaller_is_better__agrees_with_the_exact_sum(subtests: pytest.Subtests) -> None:
    for control, treatment in CASES:
        with subtests.test(control=control):
            before, after = Beta.after(*control), Beta.after(*treatment)
            choice = choose_share(after, before, is_decrease_good=True)
            assert choice.chance_to_beat == pytest.approx(float(chance_exactly(after, before)), rel=1e-9)
            assert choice.expected_loss == pytest.approx(float(loss_exactly(after, before)), rel=1e-9)


@pytest.mark.parametrize(
    ("control", "treatment"), [((50_000, 10**6), (50_400, 10**6)), ((3, 10**6), (2, 50)), ((10, 20), (999_000, 10**6))]
)
def test_choose_share__a_million_users__agrees_with_an_adaptive_integral(control, treatment):
    before, after = Beta.after(*control), Beta.after(*treatment)
    first, second = stats.beta(before.a, before.b), stats.beta(after.a, after.b)
    narrow, wide, sign = (first, second, 1) if first.std() < second.std() else (second, first, -1)
    places = [narrow.ppf(q) for q in (1e-16, 0.1, 0.5, 0.9)] + [narrow.isf(1e-16)]
    chance = sum(
        integrate.quad(lambda x: narrow.pdf(x) * (wide.sf(x) if sign > 0 else wide.cdf(x)), *span, epsabs=1e-12)[0]
        for span in pairwise(places)
    )
    choice = choose_share(after, before, is_decrease_good=False)
    assert choice.chance_to_beat == pytest.approx(chance, rel=1e-6)


@pytest.mark.parametrize(("control", "treatment"), [((200, 2000), (230, 2000)), ((50_000, 10**6), (50_400, 10**6))])
def test_choose_share__one_choice_or_the_other__differ_by_the_difference_of_the_means(control, treatment):
    before, after = Beta.after(*control), Beta.after(*treatment)
    of_treatment = choose_share(after, before, is_decrease_good=False)
    of_control = choose_share(before, after, is_decrease_good=False)
    assert of_treatment.chance_to_beat + of_control.chance_to_beat == pytest.approx(1, rel=1e-12)
    assert of_control.expected_loss - of_treatment.expected_loss == pytest.approx(after.mean - before.mean, rel=1e-9)


@pytest.mark.parametrize("difference", [-3.0, -0.1, 0.0, 0.25, 1.75, 30.0])
@pytest.mark.parametrize("is_decrease_good", [False, True])
def test_choose_mean__any_difference__agrees_with_an_integral(difference, is_decrease_good):
    gain = -difference if is_decrease_good else difference
    posterior = stats.norm(gain, 0.5)
    loss, _ = integrate.quad(lambda x: -x * posterior.pdf(x), min(gain, 0) - 10, 0, points=[min(gain, -0.1)])
    choice = choose_mean(difference, 0.5, is_decrease_good=is_decrease_good)
    assert choice.chance_to_beat == pytest.approx(posterior.sf(0), rel=1e-9)
    assert choice.expected_loss == pytest.approx(loss, rel=1e-6, abs=1e-12)


@pytest.mark.parametrize(("difference", "expected"), [(1e100, Choice(1.0, 0.0)), (-1e100, Choice(0.0, 1e100))])
def test_choose_mean__difference_beyond_doubt__is_certain(difference, expected):
    assert choose_mean(difference, 1e-250, is_decrease_good=False) == expected
