"""Quantiles of events whose users are clusters: their values, and their errors in samples drawn at random."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.stats.quantiles import EventValues
from experiments.stats.types import Quantile

EVERYBODY = np.arange(4)


def events(share: float, *values: list[float]) -> EventValues:
    """The events of users, one list for each."""
    owners = [user for user, of_user in enumerate(values) for _ in of_user]
    return EventValues.of(share, len(values), np.array([v for of_user in values for v in of_user]), np.array(owners))


@pytest.mark.parametrize(
    ("share", "value"), [(0.01, 1), (0.2, 1), (0.21, 2), (0.5, 3), (0.6, 3), (0.8, 4), (0.81, 5), (0.99, 5)]
)
def test_quantile__of_all__is_the_value_at_the_nearest_rank(share: float, value: float) -> None:
    found = events(share, [3, 1], [5], [], [4, 2]).quantile(EVERYBODY)
    assert (found.n, found.events, found.value) == (4, 5, value)


def test_quantile__rank__is_exact() -> None:
    """55 % of a hundred are 55, though not in floats: 0.55 x 100 is somewhat more."""
    single = [[float(number)] for number in range(1, 101)]
    assert events(0.55, *single).quantile(np.arange(100)).value == 55


def test_quantile__some_users__is_that_of_their_events() -> None:
    of_all = events(0.5, [1, 1, 1], [10], [20], [30])
    assert of_all.quantile(np.array([1, 2, 3])).value == 20
    assert of_all.quantile(np.array([0, 1])).value == 1


@pytest.mark.parametrize(("users", "expected"), [([], Quantile()), ([2], Quantile(n=1))])
def test_quantile__no_events__has_no_value(users: list[int], expected: Quantile) -> None:
    assert events(0.5, [1], [2], [], [3]).quantile(np.array(users, int)) == expected


def test_quantile__one_user__has_no_error() -> None:
    assert events(0.5, [1, 2, 3], [], [], []).quantile(np.array([0])) == Quantile(1, 3, 2, 0.0)


@pytest.mark.parametrize("share", [0.5, 0.9])
def test_quantile__error__is_the_spread_of_quantiles_of_clustered_samples(share: float) -> None:
    """Events of a user resemble each other, so an error by events alone would be far too small."""
    random, found = np.random.default_rng(11), []
    for _ in range(300):
        number = random.poisson(4, 400)
        owners = np.repeat(np.arange(400), number)
        values = np.exp(np.repeat(random.normal(0, 1, 400), number) + random.normal(0, 0.3, len(owners)))
        found.append(EventValues.of(share, 400, values, owners).quantile(np.arange(400)))
    spread = np.std([quantile.value for quantile in found])
    errors = np.sqrt([quantile.squared_error for quantile in found])
    assert np.median(errors) == pytest.approx(spread, rel=0.15)


def test_quantile__error__is_computed_by_hand() -> None:
    """Users with 1, 1, 2 events; below the median 2: 1, 1, 0. With p = 1/2: Σ (1/2, 1/2, -1)² = 3/2.

    The spread is z √(3/2 · 4/3) / 4 = z √2 / 4 > 1/2, so the ends are the first value and the last.
    """
    found = events(0.5, [1], [2], [4, 9], []).quantile(EVERYBODY)
    z = 1.959963984540054
    assert found == Quantile(4, 4, 2, pytest.approx(((9 - 1) / (2 * z)) ** 2, rel=1e-12))
