"""How often the whole verdict is wrong: experiments with a goal and three guardrails, looked at daily.

Each runs for 14 days to its planned size, at splits from 50/50 to 99/1. Without an effect, `ship` and `do_not_ship` are
wrong at every look. With exactly the smallest effect of interest, `no_difference` is, from the planned size on: at the
14th day, and at the 17th, 21st and 28th, if the experiment goes on.

The whole analysis decides. It is not computed where it cannot decide wrongly, because no measure differs by as much as
two standard errors: no always-valid interval is that narrow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest

from experiments.stats.analysis import analyse
from experiments.stats.outcomes import Decision
from experiments.stats.simulation import final_verdict, inputs_of
from experiments.stats.types import Design, Measure, Plan, Sums, Weight
from experiments.stats.verdict import RULES

ROUNDS = 1000
DAYS = 14
LATER_DAYS = (14, 17, 21, 28)
MINIMUM_EFFECT = 0.15
LEAST_Z = 2.0
SHARES = (0.1, 0.05, 0.3)
BUYERS, SPREAD = 0.1, 1.0
MEASURES = (
    Measure("purchase", "share"),
    Measure("crash", "share", is_guardrail=True, is_decrease_good=True),
    Measure("return", "share", is_guardrail=True),
    Measure("revenue", "mean", is_guardrail=True, is_non_negative=True),
)
SPLITS = pytest.mark.parametrize("treated", [0.5, 0.1, 0.01], ids=["50/50", "90/10", "99/1"])
Arm = list[tuple[np.ndarray, np.ndarray, np.ndarray]]
"""The number of users with a value, Σy and Σy², of each measure, by round and day."""


def daily_users(treated: float) -> tuple[int, int]:
    """Return the daily users of control and treatment, with which all splits have the same power."""
    total = 1000 / (4 * treated * (1 - treated))
    return round(total * (1 - treated)), round(total * treated)


def draw(random: np.random.Generator, users: int, days: int, lift: float) -> Arm:
    """Draw the values of one variant, cumulated over the days."""
    counts = [
        random.binomial(users, share, (ROUNDS, days)).cumsum(axis=1) for share in (SHARES[0] * (1 + lift), *SHARES[1:])
    ]
    buyers = random.binomial(users, BUYERS, (ROUNDS, days))
    totals = np.zeros((2, ROUNDS, days))
    for of_round in range(ROUNDS):  # one round at a time, for the memory
        amounts = random.lognormal(0, SPREAD, buyers[of_round].sum())
        cells = np.repeat(np.arange(days), buyers[of_round])
        totals[0, of_round] = np.bincount(cells, amounts, days)
        totals[1, of_round] = np.bincount(cells, amounts * amounts, days)
    return [*((count, count, count) for count in counts), (buyers.cumsum(axis=1), *totals.cumsum(axis=2))]


def largest_z(control: Arm, treatment: Arm, users: tuple[int, int]) -> np.ndarray:
    """Return the largest distance from no difference of any measure, by round and day.

    The variance is the pooled one of shares, and that by Welch of values, which the larger of two is at least.
    """
    days = np.arange(1, control[0][0].shape[1] + 1)
    n_c, n_t = (days * of_variant for of_variant in users)
    distances = []
    for measure, (_, y_c, yy_c), (_, y_t, yy_t) in zip(MEASURES, control, treatment, strict=True):
        if measure.kind == "share":
            pooled = (y_c + y_t) / (n_c + n_t)
            variance = pooled * (1 - pooled) * (1 / n_c + 1 / n_t)
        else:
            v_c, v_t = (yy_c - y_c**2 / n_c) / (n_c - 1), (yy_t - y_t**2 / n_t) / (n_t - 1)
            variance = v_c / n_c + v_t / n_t
        distances.append(abs(y_t / n_t - y_c / n_c) / np.sqrt(np.maximum(variance, 1e-300)))
    return np.max(distances, axis=0)


def sums_of(arm: Arm, of_round: int, day: int, users: int) -> list[Sums]:
    return [
        Sums(n=day * users, nonzero=int(nonzero[of_round, day - 1]), y=y[of_round, day - 1], yy=yy[of_round, day - 1])
        for nonzero, y, yy in arm
    ]


class Experiments:
    """A thousand experiments at one split."""

    def __init__(self, treated: float, *, lift: float, days: int, seed: int) -> None:
        random = np.random.default_rng(seed)
        self.users = daily_users(treated)
        self.arms = [
            draw(random, users, days, of_variant) for users, of_variant in zip(self.users, (0.0, lift), strict=True)
        ]
        self.design = Design(
            [Weight("control", self.users[0]), Weight("green", self.users[1])],
            control="control",
            is_running=True,
            plan=Plan(size=DAYS * sum(self.users), minimum_effect=MINIMUM_EFFECT),
        )

    def verdict(self, of_round: int, day: int):
        control, treatment = (
            sums_of(arm, of_round, day, users) for arm, users in zip(self.arms, self.users, strict=True)
        )
        sums = [{"control": of_control, "green": other} for of_control, other in zip(control, treatment, strict=True)]
        return analyse(inputs_of(MEASURES, self.design, sums), is_exact=False).verdict

    def finals(self, days: np.ndarray) -> Iterator:
        """Yield the final verdict of each experiment with a day to look at, by a mask over rounds and days."""
        for of_round, of_days in enumerate(days):
            if of_days.any():
                yield final_verdict([self.verdict(of_round, int(day) + 1) for day in np.flatnonzero(of_days)])


@SPLITS
def test_verdicts__without_an_effect__are_to_ship_or_not_to_ship_in_at_most_5_percent_each(treated: float) -> None:
    experiments = Experiments(treated, lift=0.0, days=DAYS, seed=17)
    days = largest_z(*experiments.arms, experiments.users) > LEAST_Z
    decided = Counter((verdict.decision, verdict.rule) for verdict in experiments.finals(days))
    assert decided[Decision.SHIP, "ship_the_best"] <= 0.05 * ROUNDS, decided
    assert decided[Decision.DO_NOT_SHIP, "reject_all"] <= 0.05 * ROUNDS, decided
    assert {rule for _, rule in decided} <= {rule.__name__ for rule in RULES}


@SPLITS
def test_verdicts__with_exactly_the_smallest_effect__are_no_difference_in_at_most_5_percent(treated: float) -> None:
    """An interval that ends below the smallest effect lies above its estimate, so larger estimates are not analysed."""
    experiments = Experiments(treated, lift=MINIMUM_EFFECT, days=max(LATER_DAYS), seed=18)
    (_, control, _), (_, treatment, _) = (arm[0] for arm in experiments.arms)
    lifts = treatment / control * experiments.users[0] / experiments.users[1] - 1
    is_later = np.isin(np.arange(1, max(LATER_DAYS) + 1), LATER_DAYS)
    decided = Counter(
        (verdict.decision, verdict.rule) for verdict in experiments.finals((lifts < MINIMUM_EFFECT) & is_later)
    )
    assert decided[Decision.NO_DIFFERENCE, "end_without_difference"] <= 0.05 * ROUNDS, decided


def test_verdicts__without_an_effect_at_twice_the_planned_size__are_mostly_no_difference() -> None:
    """So the bound above is not kept by a verdict that hardly ever says so."""
    experiments = Experiments(0.5, lift=0.0, days=2 * DAYS, seed=19)
    decided = Counter(experiments.verdict(of_round, 2 * DAYS).decision for of_round in range(100))
    assert decided[Decision.NO_DIFFERENCE] > 50, decided
