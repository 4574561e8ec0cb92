"""The boundary of a plan: against its formula, and in experiments that are looked at many times.

The simulations draw Brownian motions, which is what the estimate of a large experiment does, times the information.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from experiments.stats.boundaries import Mixture, Planned, chance_to_exceed, critical_value

ALPHA, PLANNED = 0.05, 100_000
FIXED = 1.959963984540054
WANTED = FIXED + 0.8416212335729143
"""The drift that one look at the end finds in 80 % of cases."""
Widths = NDArray[np.float64]


def test_critical_value__usual_levels__are_published_quantiles_of_the_greatest_distance() -> None:
    """Of sup |W(t)| over [0, 1]: Shorack & Wellner 1986, Empirical Processes with Applications to Statistics."""
    for chance, published in [(0.1, 1.9600), (0.05, 2.2414), (0.01, 2.8070), (0.001, 3.4808)]:
        assert critical_value(chance) == pytest.approx(published, abs=5e-5)
    assert critical_value(0.9 * ALPHA) == pytest.approx(2.2818, abs=5e-5)


def test_chance_to_exceed__any_level__is_that_of_either_series() -> None:
    for level in (0.5, 0.8, 1.0, 1.5, 2.2818, 3.0):
        terms = [
            (-1) ** k / (2 * k + 1) * math.exp(-((math.pi * (2 * k + 1)) ** 2) / (8 * level**2)) for k in range(40)
        ]
        assert chance_to_exceed(level) == pytest.approx(1 - 4 / math.pi * sum(terms), rel=1e-9)
    assert chance_to_exceed(0.0) == 1.0
    # Far out, only the first passage counts: 4 (1 - Φ(10)), with 1 - Φ(10) of SciPy 1.15's norm.sf.
    assert chance_to_exceed(10.0) == pytest.approx(4 * 7.619853024160526e-24, rel=1e-9)


@pytest.mark.parametrize("alpha", [0.05, 0.025, 0.01, 1e-6])
@pytest.mark.parametrize("share", [0.001, 0.2, 1.0, None])
def test_p_value__estimate_at_the_boundary__is_the_level(share: float | None, alpha: float) -> None:
    boundary = Planned.at(share, round(PLANNED * (share or 3)), PLANNED, ALPHA)
    edge = boundary.width(alpha)
    assert boundary.p_value(edge) == pytest.approx(alpha, rel=1e-9)
    assert boundary.p_value(-edge) == boundary.p_value(edge)
    assert boundary.p_value(edge * 1.001) < alpha < boundary.p_value(edge * 0.999)


def test_width__of_a_plan__is_the_narrower_of_both_boundaries() -> None:
    mixture = Mixture(1000, PLANNED, 0.1 * ALPHA)
    early = Planned.at(0.01, 1000, PLANNED, ALPHA)
    assert early.width(ALPHA) == mixture.width(0.1 * ALPHA) < critical_value(0.9 * ALPHA) / math.sqrt(0.01)
    late = Planned.at(1.0, PLANNED, PLANNED, ALPHA)
    assert late.width(ALPHA) == pytest.approx(2.2818, abs=5e-5)
    past = Planned.at(None, 2 * PLANNED, PLANNED, ALPHA)
    beyond = Mixture(2 * PLANNED, PLANNED, 0.1 * ALPHA).width(0.1 * ALPHA)
    assert past.width(ALPHA) == pytest.approx(beyond, rel=1e-12)


# many looks


def shares_of(looks: int, until: float = 1.0) -> NDArray[np.float64]:
    """The information at each look, in units of the plan."""
    return np.arange(1, round(looks * until) + 1) / looks


def widths_of_plan(looks: int, until: float = 1.0) -> Widths:
    return np.array(
        [
            Planned.at(share if share <= 1 else None, round(share * PLANNED), PLANNED, ALPHA).width(ALPHA)
            for share in shares_of(looks, until).tolist()
        ]
    )


def widths_of_mixture(looks: int) -> Widths:
    return np.array([Mixture(round(share * PLANNED), PLANNED, ALPHA).width(ALPHA) for share in shares_of(looks)])


def widths_of_obrien_fleming(looks: int) -> Widths:
    """The constant is the quantile of the greatest distance over so many looks, here from 400,000 runs."""
    rng = np.random.default_rng(5)
    greatest = np.concatenate([np.abs(motions(rng, looks)).max(axis=1) for _ in range(20)])
    return np.quantile(greatest, 1 - ALPHA) / np.sqrt(shares_of(looks))


def widths_of_one_look(looks: int) -> Widths:
    return np.where(np.arange(1, looks + 1) == looks, FIXED, np.inf)


def widths_of_peeking(looks: int) -> Widths:
    return np.full(looks, FIXED)


def motions(rng: np.random.Generator, looks: int, until: float = 1.0, runs: int = 20_000) -> NDArray[np.float64]:
    steps = rng.standard_normal((runs, round(looks * until)))
    return np.cumsum(steps, axis=1) / math.sqrt(looks)


def chance(widths: Widths, looks: int, drift: float = 0.0, until: float = 1.0, rounds: int = 10) -> float:
    """Return how often a test rejects at one look at least; the drift is that at the planned size, in its errors."""
    shares, rng = shares_of(looks, until), np.random.default_rng(11)
    bounds = widths * np.sqrt(shares)
    found = [(np.abs(motions(rng, looks, until) + drift * shares) > bounds).any(axis=1).mean() for _ in range(rounds)]
    return float(np.mean(found))


def size_for_power(widths: Widths, looks: int) -> float:
    """Return the users with which 80 % of effects are found by the end, relative to one look at the end."""
    rng = np.random.default_rng(13)
    shares, drawn = shares_of(looks), motions(rng, looks)
    bounds = widths * np.sqrt(shares)
    low, high = 2.0, 5.0
    for _ in range(12):
        drift = (low + high) / 2
        found = (np.abs(drawn + drift * shares) > bounds).any(axis=1).mean()
        low, high = (low, drift) if found > 0.8 else (drift, high)
    return (high / WANTED) ** 2


@pytest.mark.parametrize("looks", [20, 100])
def test_plan__looked_at_many_times__errs_at_most_as_often_as_promised(looks: int) -> None:
    until_planned = chance(widths_of_plan(looks), looks)
    in_all = chance(widths_of_plan(looks, 3.0), looks, until=3.0, rounds=5)
    assert 0.025 < until_planned <= 0.045
    assert until_planned - 0.002 <= in_all <= ALPHA


def test_plan__weights_changed_meanwhile__errs_no_more_often() -> None:
    """Information that comes in uneven steps is the same motion at other times."""
    rng, shares = np.random.default_rng(17), np.sort(np.random.default_rng(19).uniform(0.01, 1.0, 50))
    steps = rng.standard_normal((100_000, 50)) * np.sqrt(np.diff(shares, prepend=0.0))
    z = np.abs(np.cumsum(steps, axis=1)) / np.sqrt(shares)
    widths = [Planned.at(share, round(share * PLANNED), PLANNED, ALPHA).width(ALPHA) for share in shares.tolist()]
    assert (z > np.array(widths)).any(axis=1).mean() <= ALPHA


@pytest.mark.parametrize(("looks", "size"), [(7, 1.21), (100, 1.13)])
def test_plan__power_of_80_percent_by_the_end__takes_little_more_than_one_look(looks: int, size: float) -> None:
    assert size_for_power(widths_of_plan(looks), looks) == pytest.approx(size, abs=0.02)


def test_plan__at_the_last_look__takes_124_percent_of_one_look() -> None:
    assert ((critical_value(0.9 * ALPHA) + WANTED - FIXED) / WANTED) ** 2 == pytest.approx(1.243, abs=0.001)


@pytest.mark.parametrize(
    ("widths", "false", "size"),
    [
        (widths_of_one_look, 5.0, 1.0),
        (widths_of_peeking, 37.0, None),
        (widths_of_obrien_fleming, 5.0, 1.06),
        (widths_of_mixture, 1.4, 1.68),
        (widths_of_plan, 3.9, 1.13),
    ],
)
def test_methods_of_the_guide__hundred_looks__are_as_in_its_table(
    widths: Callable[[int], Widths], false: float, size: float | None
) -> None:
    bounds = widths(100)
    assert 100 * chance(bounds, 100) == pytest.approx(false, rel=0.06, abs=0.15)
    if size is not None:
        assert size_for_power(bounds, 100) == pytest.approx(size, abs=0.02)
