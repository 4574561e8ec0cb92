"""At any split of the users, results are wrong at most as often as promised, over twenty looks.

The suite draws few experiments of each kind, and quantiles at few splits, because those take long. The guide's table
has more of them: see `splits.table`. The fewer there are, the more of them may be wrong by chance. If 5 % were wrong in
truth, the number of wrong ones among so many would have a binomial distribution. Its quantile is the bound here, at a
level at which all checks of this module together fail by chance in one of a thousand choices of the seed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from scipy.stats import binom

from experiments.stats.analysis import analyse
from experiments.stats.boundaries import Planned
from experiments.stats.strata import Strata
from experiments.stats.types import Inputs, Margin, Measure, Reason, Stratum
from tests.experiments.stats.splits import (
    LOOKS,
    PAIR,
    QUANTILES,
    SPLITS,
    SUMS,
    USERS_AT_ONCE,
    Boundary,
    Data,
    Errors,
    count_errors,
    mixture,
)
from tests.experiments.stats.sums import design

ALPHA, ROUNDS, ROUNDS_OF_QUANTILES = 0.05, 100, 20
LIFTS, SPLITS_OF_QUANTILES = (0.0, -0.5, 1.0), (0.5, 0.1)
PLANNED = [name for name in SUMS if "phases" not in name]
"""Where weights do not change, the number of users is the share of the planned information."""
ROUNDS_OF_PLANS, SPLITS_OF_PLANS = 60, (0.5, 0.1, 0.01)
MOST_OF_PLANS = 0.065
"""With a true effect, the boundary of a plan may be crossed a little more often than without one."""
OF_PLANS = len(PLANNED) * (len(SPLITS_OF_PLANS) * len(LIFTS) + 1)
CHECKS = 2 * (
    OF_PLANS + len(SUMS) * (len(SPLITS) * len(LIFTS) + 1) + len(QUANTILES) * (len(SPLITS_OF_QUANTILES) * len(LIFTS) + 1)
)


def most_by_chance(rounds: int, share: float = ALPHA) -> int:
    return int(binom.ppf(1 - 0.001 / CHECKS, rounds, share))


def assert_few(errors: dict[tuple[float, float], Errors], rounds: int, share: float = ALPHA) -> None:
    """Check each split and lift alone, and all of them together, for which the bound is much closer to the share."""
    for (split, lift), found in errors.items():
        assert max(found.shown, found.decided) <= most_by_chance(rounds, share), (split, lift, found)
    total = most_by_chance(rounds * len(errors), share)
    assert sum(found.shown for found in errors.values()) <= total, errors
    assert sum(found.decided for found in errors.values()) <= total, errors


def errors_of(
    data: Data, splits: Sequence[float], rounds: int, boundary: Callable[[float], Boundary] = lambda split: mixture
) -> dict[tuple[float, float], Errors]:
    """Return the errors by split and lift, with the boundary of each split."""
    cells = [(split, lift) for split in splits for lift in LIFTS]
    return {
        (split, lift): count_errors(data, split=split, lift=lift, rounds=rounds, seed=seed, boundary=boundary(split))
        for seed, (split, lift) in enumerate(cells)
    }


@pytest.mark.parametrize("name", SUMS)
def test_splits__twenty_looks__are_wrong_at_most_as_often_as_promised(name: str) -> None:
    assert_few(errors_of(SUMS[name], SPLITS, ROUNDS), ROUNDS)


@pytest.mark.parametrize("name", QUANTILES)
def test_splits__quantiles_at_twenty_looks__are_wrong_at_most_as_often_as_promised(name: str) -> None:
    assert_few(errors_of(QUANTILES[name], SPLITS_OF_QUANTILES, ROUNDS_OF_QUANTILES), ROUNDS_OF_QUANTILES)


def planned(split: float) -> Boundary:
    """Return the boundary of a plan that is over at the last look."""
    treatment = USERS_AT_ONCE * LOOKS
    size = treatment + LOOKS * round(USERS_AT_ONCE * (1 - split) / split)
    return lambda users: Planned.at(users / size, users, size, ALPHA).width(ALPHA)


@pytest.mark.parametrize("name", PLANNED)
def test_splits__twenty_looks_of_a_plan__are_hardly_wrong_more_often(name: str) -> None:
    errors = errors_of(SUMS[name], SPLITS_OF_PLANS, ROUNDS_OF_PLANS, planned)
    assert_few(errors, ROUNDS_OF_PLANS, MOST_OF_PLANS)


def test_count_errors__boundary_of_a_single_look__is_crossed_far_more_often() -> None:
    """The harness finds what is wrong: 1.96 standard errors are for one look."""
    data = SUMS["share of 20 %"]
    found = count_errors(data, split=0.5, lift=0.0, rounds=ROUNDS, boundary=lambda users: 1.96)
    assert found.decided > most_by_chance(ROUNDS)


@pytest.mark.parametrize("name", ["share of 2 %", "lognormal values", "revenue over sessions"])
@pytest.mark.parametrize("lift", [0.0, 1.0, -0.5])
def test_label_and_guardrail__of_every_look__follow_from_the_interval_and_what_is_expected(
    name: str, lift: float
) -> None:
    """So what is counted above for intervals holds for labels and guardrails alike."""
    data, found = SUMS[name], set()
    measure = Measure("m", data.measure.kind, is_non_negative=True)
    guarded = Measure("g", data.measure.kind, is_non_negative=True, is_guardrail=True, margin=Margin(relative=0.4))
    for experiment in data.draw(np.random.default_rng(3), 1, (900, 100), lift):
        for [sums], _ in experiment[::4]:
            users = {key: of.n for key, of in sums.items()}
            strata = [Stratum(design().variants, users, [sums, sums])]
            goal, guardrail = (
                analysed.variants[1].comparison
                for analysed in analyse(Inputs(design(), [measure, guarded], strata, users), is_exact=False).measures
            )
            pair = Strata(measure, [sums]).raw.pair(PAIR[1], PAIR[0], is_non_negative=True)
            assert goal is not None
            assert guardrail is not None
            assert guardrail.guardrail is not None
            assert not isinstance(pair, Reason)
            lower, upper = pair.bounds_of_difference(mixture(sum(users.values())))
            sign = "better" if lower > 0 else "worse" if upper < 0 else "unclear"
            assert goal.label == guardrail.label == ("unclear" if goal.shortages else sign)
            least, _ = pair.bounds_of_lift(mixture(sum(users.values()))) or (None, None)
            is_safe = lower > 0 or (least is not None and least >= -0.4)
            status = "safe" if is_safe else "harmed" if sign == "worse" else "undecided"
            assert guardrail.guardrail.status == ("undecided" if goal.shortages else status)
            found.add((goal.label, guardrail.guardrail.status))
    assert len(found) > 1
