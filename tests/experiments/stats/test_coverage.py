"""Coverage of adjusted values and lifts at one look, for a share, a mean and a ratio.

The mean of all histories is an estimate, too. Intervals that leave this out cover the adjusted value of a
variant far too rarely where the history explains most of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest

from experiments.stats.analysis import analyse
from experiments.stats.types import Estimate, Measure, Sums, VariantEstimate
from tests.experiments.stats.sums import inputs

ROUNDS, USERS, LIFT = 600, 400, 0.2
Columns = Mapping[str, np.ndarray]
"""y, d, x and e of every user, in the shape (round, user)."""
_PAIRS = ("yy", "dd", "yd", "xx", "xy", "ee", "xe", "ye", "dx", "de")


def share(random: np.random.Generator, lift: float) -> Columns:
    likes = random.random((ROUNDS, USERS)) < 0.4
    x = np.where(likes, random.random((ROUNDS, USERS)) < 0.9, 0).astype(float)
    y = np.where(likes, random.random((ROUNDS, USERS)) < 0.75 * (1 + lift), 0).astype(float)
    return {"y": y, "x": x}


def mean(random: np.random.Generator, lift: float) -> Columns:
    habit = random.gamma(2, 1, (ROUNDS, USERS))
    noise = random.gamma(1, 0.2, (ROUNDS, USERS))
    return {"y": habit + noise + 2.2 * lift, "x": habit}


def ratio(random: np.random.Generator, lift: float) -> Columns:
    keen = random.beta(2, 4, (ROUNDS, USERS))
    d, e = 1 + random.poisson(6, (2, ROUNDS, USERS))
    return {
        "y": random.binomial(d, np.minimum(1, keen * (1 + lift))).astype(float),
        "d": d.astype(float),
        "x": random.binomial(e, keen).astype(float),
        "e": e.astype(float),
    }


def sums_by_round(columns: Columns) -> list[Sums]:
    nothing = np.zeros((ROUNDS, USERS))
    named = {name: columns.get(name, nothing) for name in "ydxe"}
    totals = {name: column.sum(axis=1) for name, column in named.items()}
    totals |= {pair: (named[pair[0]] * named[pair[1]]).sum(axis=1) for pair in _PAIRS}
    return [
        Sums(n=USERS, nonzero=USERS, **{name: float(total[at]) for name, total in totals.items()})
        for at in range(ROUNDS)
    ]


TRUTHS = [  # the true values of control and treatment
    ("share", share, 0.3, 0.36),
    ("mean", mean, 2.2, 2.64),
    ("ratio", ratio, 1 / 3, None),
]


@pytest.mark.parametrize(("kind", "draw", "control", "treatment"), TRUTHS, ids=[kind for kind, *_ in TRUTHS])
def test_adjusted_values_and_lifts__over_many_experiments__are_covered_as_promised(
    kind: str, draw: Callable[[np.random.Generator, float], Columns], control: float, treatment: float | None
) -> None:
    random = np.random.default_rng(8)
    measure = Measure("m", kind, is_non_negative=True)
    covered: dict[str, list[bool]] = {"control": [], "treatment": [], "fixed": [], "always": []}
    for of_control, of_treatment in zip(
        sums_by_round(draw(random, 0.0)), sums_by_round(draw(random, LIFT if treatment else 0.0)), strict=True
    ):
        given = inputs((measure, {"control": of_control, "treatment": of_treatment}), is_adjusted=True)
        first, second = analyse(given, is_exact=False).measures[0].variants
        assert first.raw is not None
        covered["control"].append(contains(first, control))
        covered["treatment"].append(contains(second, treatment or control))
        lift = second.comparison.lift if second.comparison else None
        assert isinstance(lift, Estimate)
        truth = LIFT if treatment else 0.0
        covered["fixed"].append(lift.fixed_horizon.lower <= truth <= lift.fixed_horizon.upper)
        covered["always"].append(lift.always_valid.lower <= truth <= lift.always_valid.upper)
    rates = {name: np.mean(found) for name, found in covered.items()}
    assert all(rates[name] == pytest.approx(0.95, abs=0.03) for name in ("control", "treatment")), rates
    # What the treatment adds here, the test takes for a multiple: its variance is then the larger one.
    assert 0.92 <= rates["fixed"] <= 0.99, rates
    assert rates["always"] >= 0.95


def contains(variant: VariantEstimate, value: float) -> bool:
    assert variant.interval is not None
    return variant.interval.lower <= value <= variant.interval.upper
