"""The winners that hold: against the definition by brute force, and in simulated programmes."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest

from experiments.stats.false_discoveries import RATE, min_log_e_value
from experiments.stats.sequential import log_e_value

PROGRAMMES, EXPERIMENTS, LOOKS = 1000, 100, 20
USERS_A_LOOK = 500


def holding_by_definition(e_values: list[float], experiments: int, rate: float) -> set[int]:
    """Return the largest set whose every e-value is at least K / (rate x its size)."""
    for size in range(len(e_values), 0, -1):
        for chosen in combinations(range(len(e_values)), size):
            if all(e_values[index] * rate * size >= experiments for index in chosen):
                return {*chosen}
    return set()


def test_min_log_e_value__any_e_values__is_that_of_the_largest_set_by_definition() -> None:
    random = np.random.default_rng(3)
    sizes = set()
    for _ in range(500):
        experiments = int(random.integers(1, 12))
        e_values = np.exp(random.normal(2, 3, random.integers(0, min(experiments, 9) + 1))).tolist()
        least = min_log_e_value([math.log(value) for value in e_values], experiments, 0.1)
        holding = {index for index, value in enumerate(e_values) if math.log(value) >= least}
        assert holding == holding_by_definition(e_values, experiments, 0.1)
        sizes.add(len(holding))
    assert sizes >= {0, 1, 2, 3, 4}


@pytest.mark.parametrize(
    ("e_values", "experiments", "least"),
    [
        ([], 0, math.inf),
        ([], 5, math.inf),
        ([19.0], 1, math.inf),
        ([21.0], 1, 20.0),  # alone, it needs no more than its own test at 5 %
        ([21.0], 2, math.inf),
        ([21.0, 30.0], 2, 20.0),
        ([39.0, 30.0], 3, 30.0),
    ],
)
def test_min_log_e_value__by_hand(e_values: list[float], experiments: int, least: float) -> None:
    found = min_log_e_value([math.log(value) for value in e_values], experiments)
    assert found == pytest.approx(math.log(least) if least < math.inf else least)


def test_min_log_e_value__that_no_float_can_hold__is_no_obstacle() -> None:
    assert min_log_e_value([1e6], 100) == pytest.approx(math.log(2000))


@pytest.fixture(scope="module")
def programmes() -> tuple[np.ndarray, np.ndarray]:
    """Return the e-value (as a logarithm) of the better of two treatments in each experiment, and whether it is real.

    Of 100 experiments, 80 have no effect, 5 harm and 15 help. Half of them, at random, stop at the first of 20 looks at
    which they seem to have found something better, and the others at the last. Only those go on to an e-value that can
    hold. The control has half of the users.
    """
    random = np.random.default_rng(1)
    of_experiments = np.repeat([0.0, -0.1, 0.1], [80, 5, 15])  # in standard deviations of a user
    effects = of_experiments[:, None] * random.integers(0, 2, (PROGRAMMES, EXPERIMENTS, 2))
    effects[..., 0] = of_experiments  # the second treatment has the same effect or none
    per_look = np.sqrt(USERS_A_LOOK / 4)
    steps = random.normal(effects[..., None] * per_look, 1, (PROGRAMMES, EXPERIMENTS, 2, LOOKS))
    looks = np.arange(1, LOOKS + 1)
    z = steps.cumsum(axis=-1) / np.sqrt(looks)
    found = log_e_value(z, looks.astype(float) * USERS_A_LOOK, tuning_size=5000, alpha=0.05) - math.log(2)
    evidence = np.where(z > 0, found, -np.inf)
    best = evidence.max(axis=2)
    is_found = best > math.log(1 / RATE)
    stops_early = is_found.any(axis=-1) & (random.random((PROGRAMMES, EXPERIMENTS)) < 0.5)
    ends = np.where(stops_early, is_found.argmax(axis=-1), LOOKS - 1)
    at_end = np.take_along_axis(evidence, ends[..., None, None], axis=-1)[..., 0]
    winner = at_end.argmax(axis=-1)[..., None]
    is_real = np.take_along_axis(effects, winner, axis=-1)[..., 0] > 0
    return np.take_along_axis(at_end, winner, axis=-1)[..., 0], is_real


def test_programmes__winners_that_hold__are_false_in_at_most_5_percent(
    programmes: tuple[np.ndarray, np.ndarray],
) -> None:
    false, marked = [], []
    for e_values, is_real in zip(*programmes, strict=True):
        holds = e_values >= min_log_e_value(e_values.tolist(), EXPERIMENTS)
        false.append((holds & ~is_real).sum() / max(holds.sum(), 1))
        marked.append((holds & is_real).sum() / is_real.sum())
    assert np.mean(false) <= RATE
    assert np.mean(marked) > 0.3  # the bound is not kept by marking nothing


def test_programmes__winners_at_their_own_level__are_false_more_often(
    programmes: tuple[np.ndarray, np.ndarray],
) -> None:
    e_values, is_real = programmes
    wins = e_values >= math.log(1 / RATE)
    false = (wins & ~is_real).sum(axis=1) / np.maximum(wins.sum(axis=1), 1)
    holding = [values >= min_log_e_value(values.tolist(), EXPERIMENTS) for values in e_values]
    held = (np.array(holding) & ~is_real).sum(axis=1) / np.maximum(np.sum(holding, axis=1), 1)
    assert false.mean() > 3 * held.mean()
