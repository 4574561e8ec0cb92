"""Cochran's Q against statsmodels, and what it does with parts that say nothing."""

from __future__ import annotations

import pytest

from experiments.stats.effects import NO_VARIANCE
from experiments.stats.interaction import ONE_PART, interaction
from experiments.stats.types import Estimate
from experiments.stats.types import Test as TwoSidedTest

ANY = TwoSidedTest(-1.0, 1.0, 1.0)


def part(estimate: float, error: float) -> Estimate:
    return Estimate(estimate, error, ANY, ANY)


# statsmodels 0.15.0: combine_effects(estimates, squared errors).test_homogeneity(); of the last in units of 1e150
HOMOGENEITY = [
    ([(0.02, 0.01), (0.05, 0.02), (-0.01, 0.015)], 0.04857772609501107),
    ([(1.0, 0.5), (3.0, 0.4)], 0.0017872890369872657),
    ([(5e150, 1e150), (9e150, 2e150), (6e150, 1e150), (2e150, 3e150)], 0.18518474313856334),
]


def test_interaction__several_parts__is_cochrans_q_of_statsmodels(subtests: pytest.Subtests) -> None:
    for parts, expected in HOMOGENEITY:
        with subtests.test(parts=parts):
            assert interaction([part(*pair) for pair in parts]) == pytest.approx(expected, rel=1e-6)


def test_interaction__same_effect_everywhere__is_1():
    assert interaction([part(0.25, 0.1), part(0.25, 3.0), part(0.25, 0.02)]) == 1


def test_interaction__differences_that_are_out_of_all_proportion__is_0():
    assert interaction([part(-1e300, 1e-300), part(1e300, 1e-300)]) == 0


@pytest.mark.parametrize("parts", [[], [part(1.0, 0.1)], [part(1.0, 0.1), NO_VARIANCE]])
def test_interaction__fewer_than_two_differences__says_why(parts):
    assert interaction(parts) is ONE_PART
