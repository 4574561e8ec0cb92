"""Adjusted p-values, against the published example and the libraries of the field."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from experiments.stats.multiplicity import adjust, alphas, benjamini_hochberg, holm

# Benjamini & Hochberg 1995, JRSS B 57:289-300, section 3.2: fifteen p-values of a study of myocardial infarction.
STUDY = [0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262, 0.5719, 0.6528]
STUDY += [0.7590, 1.0]


def test_benjamini_hochberg__their_example__rejects_the_four_that_they_reject():
    assert [p <= 0.05 for p in benjamini_hochberg(STUDY)] == [True] * 4 + [False] * 11


def test_holm__their_example__rejects_three():
    assert [p <= 0.05 for p in holm(STUDY)] == [True] * 3 + [False] * 12


def test_benjamini_hochberg__values_of_statsmodels__agree():
    # statsmodels 0.15.0, multipletests(STUDY, method="fdr_bh")
    expected = [0.0015, 0.003, 0.0095, 0.035625, 0.0603, 0.06385714285714286, 0.06385714285714286, 0.0645]
    expected += [0.0765, 0.486, 0.5811818181818182, 0.7148749999999999, 0.7532307692307693, 0.8132142857142857, 1.0]
    assert benjamini_hochberg(STUDY) == pytest.approx(expected, rel=1e-12)


def test_holm__values_of_statsmodels__agree():
    # statsmodels 0.15.0, multipletests(STUDY, method="holm")
    expected = [0.0015, 0.0056, 0.0247, 0.114, 0.2211, 0.278, 0.278, 0.278, 0.3213] + [1.0] * 6
    assert holm(STUDY) == pytest.approx(expected, rel=1e-12)


@settings(derandomize=True, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_benjamini_hochberg__any_values_in_any_order__are_scipys(p_values):
    assert benjamini_hochberg(p_values) == pytest.approx(stats.false_discovery_control(p_values).tolist(), rel=1e-9)


@settings(derandomize=True, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=12), st.randoms(use_true_random=False))
def test_adjust__another_order__gives_the_same_to_each(p_values, random):
    order = random.sample(range(len(p_values)), len(p_values))
    for correction in ("holm", "benjamini-hochberg"):
        adjusted = adjust(p_values, correction)
        assert adjust([p_values[at] for at in order], correction) == [adjusted[at] for at in order]
        assert all(p <= after <= 1 for p, after in zip(p_values, adjusted, strict=True))


@pytest.mark.parametrize("correction", ["holm", "benjamini-hochberg"])
@pytest.mark.parametrize("p_values", [[], [0.02]])
def test_adjust__at_most_one_value__changes_nothing(p_values, correction):
    assert adjust(p_values, correction) == p_values


def test_alphas__holm__are_those_of_its_steps_until_the_first_that_fails():
    assert alphas(STUDY, "holm", 0.05) == pytest.approx([0.05 / 15, 0.05 / 14, 0.05 / 13] + [0.05 / 12] * 12)


def test_alphas__benjamini_hochberg__are_those_of_the_rejected_and_of_one_more():
    # Benjamini & Yekutieli 2005, JASA 100:71: the intervals of R selected parameters of m have the level alpha R / m.
    assert alphas(STUDY, "benjamini-hochberg", 0.05) == pytest.approx([0.05 * 4 / 15] * 4 + [0.05 * 5 / 15] * 11)


@pytest.mark.parametrize("correction", ["holm", "benjamini-hochberg"])
def test_alphas__all_rejected_or_alone__are_at_most_alpha(correction):
    assert alphas([0.001], correction, 0.05) == [0.05]
    assert alphas([0.9], correction, 0.05) == [0.05]
    assert max(alphas([1e-9, 1e-8, 1e-7], correction, 0.05)) == pytest.approx(0.05)
    assert alphas([], correction, 0.05) == []


@settings(derandomize=True, deadline=None)
@given(
    st.lists(st.one_of(st.floats(0, 1), st.floats(0, 0.05), st.sampled_from([0.01, 0.0125, 0.02])), max_size=8),
    st.sampled_from(["holm", "benjamini-hochberg"]),
)
def test_alphas__any_p_values__reject_exactly_those_whose_adjusted_p_value_is_below_alpha(p_values, correction):
    for p, adjusted, alpha in zip(
        p_values, adjust(p_values, correction), alphas(p_values, correction, 0.05), strict=True
    ):
        assert 0 < alpha <= 0.05 * (1 + 1e-12)
        if abs(adjusted - 0.05) > 1e-12:
            assert (p < alpha) == (adjusted < 0.05)
