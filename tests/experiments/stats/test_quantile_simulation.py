"""The always-valid test of quantiles of tied values, simulated over twenty looks, and its intervals under an effect."""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt

import numpy as np
import pytest

from experiments.stats.quantiles import EventValues, quantiles_of
from experiments.stats.sequential import half_width
from experiments.stats.types import Quantile

Draw = Callable[[np.random.Generator, int], tuple[np.ndarray, np.ndarray]]
"""Returns the values of the events of so many users, and the user of each event."""

ALPHA, LOOKS, ROUNDS, USERS = 0.05, 20, 200, 1000
TUNING = {"tuning_size": 500, "alpha": ALPHA}
PRICES = ([4.99, 9.99, 10.49, 19.99, 49.0, 199.0], [0.3, 0.2, 0.02, 0.38, 0.08, 0.02])


def one_each(draw: Callable[[np.random.Generator, int], np.ndarray]) -> Draw:
    return lambda random, users: (draw(random, users), np.arange(users))


def whole_seconds(random: np.random.Generator, users: int) -> tuple[np.ndarray, np.ndarray]:
    """None to many events of each user, whose times resemble each other."""
    owners = np.repeat(np.arange(users), random.poisson(3, users))
    usual = random.normal(1.5, 0.8, users)
    return np.floor(np.exp(usual[owners] + random.normal(0, 0.4, len(owners)))), owners


DRAWS: dict[str, Draw] = {
    "two values": one_each(lambda random, users: (random.random(users) < 0.5).astype(float)),
    "counts": one_each(lambda random, users: random.poisson(1, users).astype(float)),
    "whole seconds": whole_seconds,
    "mostly zeros": one_each(lambda random, users: (random.random(users) < 0.1) * (1.0 + random.poisson(2, users))),
    "prices": one_each(lambda random, users: random.choice(PRICES[0], users, p=PRICES[1])),
    "a gap": one_each(lambda random, users: random.normal(50, 5, users) + 750 * (random.random(users) < 0.5)),
    "different values": one_each(lambda random, users: random.lognormal(1, 1, users)),
}


def compare(found: list[Quantile], users: int) -> tuple[float, float]:
    """Return the difference of the second group from the first, and the half-width of its interval."""
    control, treatment = found
    error = sqrt(control.squared_error + treatment.squared_error)
    return treatment.value - control.value, float(half_width(error, users, **TUNING))


@pytest.mark.parametrize(
    ("name", "share"),
    [
        ("two values", 0.5),
        ("counts", 0.9),
        ("whole seconds", 0.9),
        ("mostly zeros", 0.9),
        ("prices", 0.5),
        ("prices", 0.95),
        ("a gap", 0.5),
        ("different values", 0.95),
    ],
)
def test_quantile__without_a_difference__finds_one_as_seldom_as_promised(name: str, share: float) -> None:
    random, wrong = np.random.default_rng(7), 0
    for _ in range(ROUNDS):
        of_all = EventValues.of(*DRAWS[name](random, USERS))
        variants = random.integers(0, 2, USERS)
        for users in range(USERS // LOOKS, USERS + 1, USERS // LOOKS):
            seen = np.where(np.arange(USERS) < users, variants, -1)
            found = quantiles_of(share, of_all.grouped(seen, 2))
            difference, half = compare(found, users)
            if all(quantile.squared_error for quantile in found) and abs(difference) > half:
                wrong += 1
                break
    assert wrong / ROUNDS <= ALPHA


@pytest.mark.parametrize(
    ("control", "treatment", "share"), [(3.0, 3.6, 0.5), (3.0, 3.6, 0.9), (1.0, 1.3, 0.5), (1.0, 1.3, 0.75)]
)
def test_quantile__of_counts_with_an_effect__covers_it(control: float, treatment: float, share: float) -> None:
    random = np.random.default_rng(8)

    def draw(users: int) -> list[Quantile]:
        groups = (random.poisson(mean, users).astype(float) for mean in (control, treatment))
        return quantiles_of(share, [(users, EventValues.of(values, np.arange(users))) for values in groups])

    truth, _ = compare(draw(1_000_000), 2)
    looks = [(compare(draw(USERS), 2 * USERS), truth) for _ in range(ROUNDS)]
    assert np.mean([abs(difference - truth) <= half for (difference, half), truth in looks]) >= 1 - ALPHA
    assert np.mean([difference > half for (difference, half), _ in looks]) > 0.9, "the effect is found"
