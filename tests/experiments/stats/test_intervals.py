"""Intervals of a variant's own value, against published tables and the libraries of the field."""

from __future__ import annotations

import pytest
from scipy import stats

from experiments.stats.intervals import student, wilson


@pytest.mark.parametrize(
    ("positive", "n", "lower", "upper"),
    [  # Newcombe 1998, Statistics in Medicine 17:857-872, table I, method 3 (score, no continuity correction)
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_wilson__examples_of_newcombe__as_he_printed_them(positive, n, lower, upper):
    interval = wilson(positive, n, 0.05)
    assert (interval.lower, interval.upper) == (pytest.approx(lower, abs=5e-5), pytest.approx(upper, abs=5e-5))


def test_wilson__values_of_statsmodels__agree(subtests: pytest.Subtests) -> None:
    for (
        positive,
        n,
        lower,
        upper,
    ) in [  # statsmodels 0.15.0, proportion_confint(positive, n, alpha=0.05, method="wilson")
        (81, 263, 0.2552885198782742, 0.36620957698280004),
        (15, 148, 0.06238639953073628, 0.16048724172330803),
        (0, 20, 0.0, 0.1611251580528194),
        (1, 29, 0.006113214292762667, 0.17175521879320294),
        (29, 29, 0.8830302015002592, 1.0),
        (5, 10, 0.23659309051256394, 0.7634069094874361),
        (500000, 1000000, 0.4990200198900048, 0.5009799801099952),
    ]:
        with subtests.test(positive=positive):
            interval = wilson(positive, n, 0.05)
            assert (interval.lower, interval.upper) == (pytest.approx(lower, rel=1e-9), pytest.approx(upper, rel=1e-9))


@pytest.mark.parametrize("alpha", [0.01, 0.05, 0.2])
@pytest.mark.parametrize("positive", [0, 1, 37, 99, 100])
def test_wilson__any_level__is_scipys(positive, alpha):
    reference = stats.binomtest(positive, 100).proportion_ci(1 - alpha, method="wilson")
    interval = wilson(positive, 100, alpha)
    assert (interval.lower, interval.upper) == pytest.approx((reference.low, reference.high), rel=1e-9, abs=1e-15)


def test_student__example_of_statsmodels__agrees():
    # The first sample of test_fixed_horizon's example; statsmodels 0.15.0, DescrStatsW(sample).tconfint_mean()
    interval = student(19.37, (1.4490 / 10) ** 0.5, 9, 0.05)
    assert (interval.lower, interval.upper) == pytest.approx((18.508893302934553, 20.23110669706545), rel=1e-6)


@pytest.mark.parametrize("n", [2, 3, 30, 10**7])
def test_student__any_number_of_users__is_scipys(n):
    lower, upper = stats.t.interval(0.95, n - 1, loc=-3.5, scale=0.25)
    interval = student(-3.5, 0.25, n - 1, 0.05)
    assert (interval.lower, interval.upper) == pytest.approx((lower, upper), rel=1e-9)
