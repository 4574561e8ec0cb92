"""The search for the end of an interval."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from experiments.stats.roots import find_bound


@pytest.mark.parametrize(
    ("half_width", "limit", "expected"),
    [
        (lambda x: 0.25, math.inf, 1.25),
        (lambda x: 0.25, -math.inf, 0.75),
        (lambda x: 0.5 * math.sqrt(abs(x)), math.inf, 1 + (1 + math.sqrt(17)) / 8),
        (lambda x: 0.5 * math.sqrt(abs(x)), 0.0, 1 + (1 - math.sqrt(17)) / 8),
        (lambda x: 0.9 * x, math.inf, 10.0),  # far away
        (lambda x: 0.9 * x, -math.inf, 1 / 1.9),
        (lambda x: 0.25 if x < 2 else 0.0, 5.0, 1.25),
        (lambda x: 2.0 if x < 2 else 0.0, 5.0, 2.0),  # at a step
        (lambda x: 100.0, 3.0, 3.0),  # none before the limit
        (lambda x: math.inf, 3.0, 3.0),
        (lambda x: 0.25, 1.0, 1.0),  # the estimate is the limit
    ],
)
def test_find_bound__first_end_from_the_estimate_on(
    half_width: Callable[[float], float], limit: float, expected: float
) -> None:
    found = find_bound(half_width, 1.0, min(half_width(1.0), 1e3), limit)
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_find_bound__no_width_at_the_estimate__takes_the_step_to_try() -> None:
    assert find_bound(lambda x: math.sqrt(x / 100), 0.0, 1e-6, 1.0) == pytest.approx(0.01, rel=1e-9)


@pytest.mark.parametrize("step", [0.0, math.inf, math.nan])
def test_find_bound__step_of_no_size__ends_at_once(step: float) -> None:
    found = find_bound(lambda x: step, 1.0, step, 2.0)
    assert found == 1 + step or math.isnan(found)


def test_find_bound__few_evaluations_of_a_width_that_hardly_changes() -> None:
    calls: list[float] = []

    def half_width(x: float) -> float:
        calls.append(x)
        return 0.01 * math.sqrt(x * (2 - x))

    find_bound(half_width, 1.0, 0.01, 2.0)
    assert len(calls) <= 4
