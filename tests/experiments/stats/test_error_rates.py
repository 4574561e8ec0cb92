"""False positives of differences and lifts over twenty looks, and coverage of a lift of 20 %, raw and with CUPED.

The five data sets are those on which intervals of lifts by the delta method err most: rare conversions,
and revenue that few users pay.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest

from experiments.stats import effects
from experiments.stats.strata import Strata
from experiments.stats.types import Estimate, Measure, Reason, Sums
from tests.experiments.stats.sums import design

LOOKS = 20
ROUNDS = 150
LATER_LOOKS = (0, 4, 9, 19)
DESIGN = design()
CONVERTED, REVENUE = Measure("converted", "share"), Measure("revenue", "mean", is_non_negative=True)


@dataclass(frozen=True)
class Rates:
    """Conversions at this rate. Half of the users who converted before do so again."""

    rate: float
    users: int
    measure: Measure = CONVERTED

    def draw(self, random: np.random.Generator, lift: float) -> np.ndarray:
        """Return Σy, Σy², Σx, Σx² and Σxy of each round and look, cumulated, for one variant."""
        rate = self.rate * (1 + lift)
        both = self.rate / 2 * (1 + lift)
        shares = [both, rate - both, self.rate - both, 1 - self.rate - rate + both]
        counts = random.multinomial(self.users // LOOKS, shares, (ROUNDS, LOOKS)).cumsum(axis=1)
        y, x = counts[..., 0] + counts[..., 1], counts[..., 0] + counts[..., 2]
        return np.stack([y, y, x, x, counts[..., 0]], axis=-1).astype(float)


@dataclass(frozen=True)
class Revenue:
    """Amounts with a long tail, which 5 % of the users pay, before and after."""

    users: int = 4000
    measure: Measure = REVENUE

    def draw(self, random: np.random.Generator, lift: float) -> np.ndarray:
        payers = random.binomial(self.users // LOOKS, 0.05, (ROUNDS, LOOKS))
        cells = np.repeat(np.arange(payers.size), payers.ravel())
        habit = random.lognormal(2, 1, cells.size)
        before = habit * random.lognormal(0, 0.5, cells.size)
        after = (1 + lift) * habit * random.lognormal(0, 0.5, cells.size)
        columns = (after, after * after, before, before * before, before * after)
        sums = np.stack([np.bincount(cells, column, payers.size) for column in columns], axis=-1)
        return sums.reshape(ROUNDS, LOOKS, 5).cumsum(axis=1)


DATA = {
    "10 %": Rates(0.1, 20_000),
    "1 %": Rates(0.01, 20_000),
    "2 %, few users": Rates(0.02, 1_000),
    "0.1 %": Rates(0.001, 20_000),
    "revenue": Revenue(),
}


def estimates(
    data: Rates | Revenue, lift: float, looks: tuple[int, ...], *, is_adjusted: bool
) -> Iterator[list[tuple[Estimate, Estimate | Reason] | None]]:
    """Yield the differences and lifts of each round, by look; None where nothing can be compared."""
    random = np.random.default_rng(11)
    control, treatment = data.draw(random, 0.0), data.draw(random, lift)
    for of_round in range(ROUNDS):
        yield [
            estimate(
                data, (look + 1) * data.users // LOOKS, control[of_round, look], treatment[of_round, look], is_adjusted
            )
            for look in looks
        ]


def estimate(
    data: Rates | Revenue, users: int, control: np.ndarray, treatment: np.ndarray, is_adjusted: bool
) -> tuple[Estimate, Estimate | Reason] | None:
    sums = {}
    for key, of_variant in (("control", control), ("treatment", treatment)):
        y, yy, x, xx, xy = of_variant.tolist()
        sums[key] = Sums(n=users, nonzero=int(y > 0), y=y, yy=yy, x=x, xx=xx, xy=xy)
    strata = Strata(data.measure, [sums])
    arms = (strata.adjusted if is_adjusted else None) or strata.raw
    pair = arms.pair("treatment", "control", is_non_negative=True)
    if isinstance(pair, Reason):
        return None
    compared = effects.contrast(pair, arms.of("treatment"), arms.of("control"), DESIGN, arms.shared)
    if isinstance(compared, Reason):
        return None
    levels = effects.uncorrected(compared, DESIGN)
    difference = effects.difference(compared, levels)
    return difference, effects.lift(compared, levels, difference, is_non_negative=True)


@pytest.mark.parametrize("is_adjusted", [False, True], ids=["raw", "CUPED"])
@pytest.mark.parametrize("name", DATA)
def test_twenty_looks_at_nothing__differences_and_lifts__err_at_most_as_often_as_promised(name, is_adjusted):
    errors = np.zeros(2)
    for of_round in estimates(DATA[name], 0.0, tuple(range(LOOKS)), is_adjusted=is_adjusted):
        found = [pair for pair in of_round if pair]
        errors[0] += any(difference.always_valid.sign for difference, _ in found)
        errors[1] += any(lift.always_valid.sign for _, lift in found if isinstance(lift, Estimate))
    assert (errors / ROUNDS <= 0.05).all(), errors / ROUNDS


@pytest.mark.parametrize("is_adjusted", [False, True], ids=["raw", "CUPED"])
@pytest.mark.parametrize("name", DATA)
def test_lift_of_20_percent__interval_at_any_look__covers_it(name, is_adjusted):
    covered = [
        contains(lift, 0.2)
        for of_round in estimates(DATA[name], 0.2, LATER_LOOKS, is_adjusted=is_adjusted)
        for _, lift in filter(None, of_round)
        if isinstance(lift, Estimate)
    ]
    assert len(covered) > ROUNDS
    assert np.mean(covered) >= 0.95


def contains(lift: Estimate, value: float) -> bool:
    test = lift.always_valid
    return (test.lower is None or test.lower <= value) and (test.upper is None or value <= test.upper)
