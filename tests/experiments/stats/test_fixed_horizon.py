"""Welch's test, against a published example and the libraries of the field."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from experiments.stats.fixed_horizon import degrees_of_freedom, half_width, p_value
from experiments.stats.samples import summarise
from tests.experiments.stats.sums import sums_of

# Example 3 of "Welch's t-test", Wikipedia: t = -2.22, 24.5 degrees of freedom, p = 0.036.
SMALL = [19.8, 20.4, 19.6, 17.8, 18.5, 18.9, 18.3, 18.9, 19.5, 22.0]
LARGE = [28.2, 26.6, 20.1, 23.3, 25.2, 22.1, 17.7, 27.6, 20.6, 13.7, 23.2, 17.5]
LARGE += [20.6, 18.0, 23.9, 21.6, 24.3, 20.4, 24.0, 13.2]


def welch(first: list[float], second: list[float]) -> tuple[float, float, float]:
    """Return the difference of two means, its standard error and its degrees of freedom."""
    one, other = summarise("mean", sums_of(first)), summarise("mean", sums_of(second))
    squared = one.squared_error, other.squared_error
    return one.mean - other.mean, math.sqrt(sum(squared)), degrees_of_freedom(*squared, one.freedom, other.freedom)


def test_welch__published_example__as_printed():
    estimate, error, freedom = welch(LARGE, SMALL)
    assert estimate / error == pytest.approx(2.22, abs=0.005)
    assert freedom == pytest.approx(24.5, abs=0.05)
    assert p_value(estimate / error, freedom) == pytest.approx(0.036, abs=0.0005)


def test_welch__values_of_statsmodels__agree():
    # statsmodels 0.15.0, CompareMeans: ttest_ind, tconfint_diff and std_meandiff_separatevar, usevar="unequal"
    estimate, error, freedom = welch(LARGE, SMALL)
    assert estimate == pytest.approx(2.22, rel=1e-9)
    assert error == pytest.approx(1.0003420467651631, rel=1e-9)
    assert p_value(estimate / error, freedom) == pytest.approx(0.03597227102979708, rel=1e-9)
    half = half_width(error, freedom, 0.05)
    assert estimate - half == pytest.approx(0.1576064644953501, rel=1e-8)
    assert estimate + half == pytest.approx(4.2823935355046405, rel=1e-9)


@pytest.mark.parametrize(
    ("first", "second"), [((2, 0.5), (3, 1.25)), ((1000, 3.0), (50, 0.001)), ((10**6, 2.0), (10**6, 2.5))]
)
def test_welch__any_sizes_and_spreads__is_scipys(first, second):
    (n, deviation), (m, other) = first, second
    reference = stats.ttest_ind_from_stats(0.75, deviation, n, 0.5, other, m, equal_var=False)
    squared = (deviation**2 / n, other**2 / m)
    freedom = degrees_of_freedom(*squared, n - 1, m - 1)
    assert freedom == pytest.approx(reference.df if hasattr(reference, "df") else freedom, rel=1e-9)
    assert p_value(0.25 / math.sqrt(sum(squared)), freedom) == pytest.approx(reference.pvalue, rel=1e-6)


def test_degrees_of_freedom__one_variant_without_variance__are_those_of_the_other():
    assert degrees_of_freedom(0.5, 0.0, 10, 399) == pytest.approx(10)


def test_test__arrays__are_tested_element_by_element():
    errors, freedom = np.array([0.5, 2.0]), np.array([4.0, 99.0])
    assert half_width(errors, freedom, 0.1) == pytest.approx([half_width(0.5, 4.0, 0.1), half_width(2.0, 99.0, 0.1)])
    assert p_value(np.array([1.0, -2.0]), freedom) == pytest.approx([p_value(1.0, 4.0), p_value(2.0, 99.0)])
