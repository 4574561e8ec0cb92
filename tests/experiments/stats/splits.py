"""Experiments with a known truth at unequal splits: how often results leave it outside at any of twenty looks.

The treatment has 100 more users at each look, and the control as many as the split gives it. A result is wrong if an
interval that it shows does not contain the truth, however the users or the values were drawn. Two counts follow:

- `shown`: the interval of the difference or of the lift is wrong, at any look.
- `decided`: the same at a look with users and conversions enough for a decision. A label is wrong only then: if the
  interval excludes the truth that there is no difference. So is a guardrail: it is harmed if the interval excludes 0,
  and safe if the interval excludes a truth at the margin.

`python -m tests.experiments.stats.splits` prints the guide's table.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from experiments.stats import sequential
from experiments.stats.effects import Pair
from experiments.stats.quantiles import EventGroups, EventValues, find_quantiles
from experiments.stats.shortages import find_shortages
from experiments.stats.strata import BySums, Strata
from experiments.stats.types import Measure, Reason, Sums

Numbers = NDArray[np.float64]
Boundary = Callable[[int], float]
"""Returns the half-width of an interval in standard errors, from the number of users of both variants."""
Experiment = Sequence[tuple[Sequence[BySums], float]]
"""What each look sees: the sums of each stratum, and the control's true value."""

LOOKS = 20
USERS_AT_ONCE = 100
"""The users that each look adds to the treatment."""
SPLITS = (0.5, 0.2, 0.1, 0.05, 0.01)
"""The treatment's share of the users."""
LIFTS = (0.0, 0.2, -0.2, 0.5, -0.5, 1.0)
PAIR = ("control", "treatment")
BUYERS = 0.05


def mixture(users: int) -> float:
    """Return the boundary of the always-valid test with its defaults."""
    return float(sequential.half_width(1.0, float(users), tuning_size=5000, alpha=0.05))


@dataclass(frozen=True)
class Data:
    """Values of one kind. `draw` returns so many experiments, for a number of users at each look of both variants."""

    measure: Measure
    draw: Callable[[np.random.Generator, int, tuple[int, int], float], Iterator[Experiment]]
    is_adjusted: bool = False


@dataclass(frozen=True)
class Errors:
    """The number of experiments in which results were wrong at any look."""

    shown: int
    decided: int


def count_errors(
    data: Data, *, split: float, lift: float, rounds: int, seed: int = 1, boundary: Boundary = mixture
) -> Errors:
    """Draw so many experiments, and return in how many of them the results were wrong."""
    users = round(USERS_AT_ONCE * (1 - split) / split), USERS_AT_ONCE
    experiments = data.draw(np.random.default_rng(seed), rounds, users, lift)
    found = [_find_errors(data, experiment, lift, boundary) for experiment in experiments]
    return Errors(*(sum(column) for column in zip(*found, strict=True)))


def _find_errors(data: Data, experiment: Experiment, lift: float, boundary: Boundary) -> tuple[bool, bool]:
    is_shown = False
    for strata, control in experiment:
        both = Strata(data.measure, strata)
        arms = (both.adjusted if data.is_adjusted else None) or both.raw
        pair = arms.pair(PAIR[1], PAIR[0], is_non_negative=True)
        if isinstance(pair, Reason):
            continue
        users = sum(sums.n for stratum in strata for sums in stratum.values())
        if _excludes(pair, lift * control, lift, boundary(users)):
            is_shown = True
            if not find_shortages(data.measure, strata, PAIR, where=""):
                return True, True
    return is_shown, False


def _excludes(pair: Pair, difference: float, lift: float, width: float) -> bool:
    """Return whether the interval of the difference or of the lift excludes the truth."""
    if not pair.control and not pair.treatment and not pair.z_of_difference(0.0):
        return False  # so few users that nobody did anything
    lower, upper = pair.bounds_of_difference(width)
    if not lower <= difference <= upper:
        return True
    bounds = pair.bounds_of_lift(width) if pair.control > 0 else None
    least, most = bounds or (None, None)
    return not (least is None or least <= lift) or not (most is None or lift <= most)


# shares and values


Columns = Mapping[str, Numbers]
"""Sums by their names in `Sums`, of each experiment and look, in the shape (experiment, look)."""
DrawColumns = Callable[[np.random.Generator, tuple[int, int], int, float], Columns]
"""Returns the sums of the users of one variant, from the shape, the users at each look, and the lift."""


def of_columns(
    draw: DrawColumns, control: float, random: np.random.Generator, rounds: int, users: tuple[int, int], lift: float
) -> Iterator[Experiment]:
    """Yield experiments of one phase, drawn some at a time to save memory."""
    for _ in range(0, rounds, 50):
        for experiment in _draw_sums(draw, random, (50, LOOKS), users, lift):
            yield [([sums], control) for sums in experiment]


def of_two_phases(
    draw: DrawColumns, control: float, random: np.random.Generator, rounds: int, users: tuple[int, int], lift: float
) -> Iterator[Experiment]:
    """Yield experiments whose second half splits users by halves, or 90/10 if the first one did that.

    The control's value is twice as high in the second phase.
    """
    of_second = (9 * users[1], users[1]) if users[0] == users[1] else (users[1], users[1])
    draw_second: DrawColumns = partial(_doubled, draw)
    for _ in range(0, rounds, 50):
        shape = (50, LOOKS // 2)
        first = _draw_sums(draw, random, shape, users, lift)
        second = _draw_sums(draw_second, random, shape, of_second, lift)
        for of_first, of_both in zip(first, second, strict=True):
            before = sum(sums.n for sums in of_first[-1].values())
            looks = [([sums], control) for sums in of_first]
            for sums in of_both:
                share = sum(part.n for part in sums.values()) / (before + sum(part.n for part in sums.values()))
                looks.append(([of_first[-1], sums], control * (1 + share)))
            yield looks


def _doubled(
    draw: DrawColumns, random: np.random.Generator, shape: tuple[int, int], users: int, lift: float
) -> Columns:
    """Draw twice the values. Of lifts that change values, 2 (1 + lift) - 1 is twice the value of 1 + lift."""
    return draw(random, shape, users, 2 * (1 + lift) - 1)


def _draw_sums(
    draw: DrawColumns, random: np.random.Generator, shape: tuple[int, int], users: tuple[int, int], lift: float
) -> Iterator[list[Mapping[str, Sums]]]:
    both = [draw(random, shape, of_variant, change) for of_variant, change in zip(users, (0.0, lift), strict=True)]
    columns = [{name: column.cumsum(axis=1).tolist() for name, column in of.items()} for of in both]
    for at in range(shape[0]):
        yield [
            {
                key: Sums((look + 1) * count, **{name: column[at][look] for name, column in of.items()})
                for key, count, of in zip(PAIR, users, columns, strict=True)
            }
            for look in range(shape[1])
        ]


def shares(share: float, random: np.random.Generator, shape: tuple[int, int], users: int, lift: float) -> Columns:
    converted = random.binomial(users, share * (1 + lift), shape).astype(float)
    return {"nonzero": converted, "y": converted, "yy": converted}


def values(
    draw: Callable[[np.random.Generator, int], Numbers],
    random: np.random.Generator,
    shape: tuple[int, int],
    users: int,
    lift: float,
    *,
    adds_buyers: bool = False,
) -> Columns:
    """Draw the values of buyers. The lift changes what each of them pays, or how many there are."""
    buyers = random.binomial(users, BUYERS * (1 + lift) if adds_buyers else BUYERS, shape)
    y = draw(random, int(buyers.sum())) * (1.0 if adds_buyers else 1 + lift)
    return {"nonzero": buyers.astype(float), **_sums_in(buyers, {"y": y, "yy": y * y})}


def _sums_in(active: NDArray[np.int64], columns: Mapping[str, Numbers]) -> Columns:
    cells = np.repeat(np.arange(active.size), active.ravel())
    totals = {name: np.bincount(cells, column, active.size) for name, column in columns.items()}
    return {name: total.reshape(active.shape).astype(float) for name, total in totals.items()}


def lognormal(random: np.random.Generator, size: int) -> Numbers:
    return random.lognormal(-0.72, 1.2, size)


def exponential(random: np.random.Generator, size: int) -> Numbers:
    return random.exponential(1.0, size)


def pareto(random: np.random.Generator, size: int) -> Numbers:
    """Draw values with the mean 1, whose variance is barely finite."""
    return (1 + random.pareto(2.1, size)) * 1.1 / 2.1


def revenue_of_sessions(random: np.random.Generator, shape: tuple[int, int], users: int, lift: float) -> Columns:
    """A fifth of the users have sessions, in every tenth of which they buy."""
    active = random.binomial(users, 0.2, shape)
    d = (1 + random.poisson(2, int(active.sum()))).astype(float)
    y = random.binomial(d.astype(int), 0.1) * lognormal(random, len(d)) * (1 + lift)
    return {"nonzero": active.astype(float), **_sums_in(active, _products(y, d))}


def clicks_of_views(random: np.random.Generator, shape: tuple[int, int], users: int, lift: float) -> Columns:
    """A fifth of the users have views, of which each user clicks a share of their own, 10 % on average."""
    active = random.binomial(users, 0.2, shape)
    d = (1 + random.poisson(4, int(active.sum()))).astype(float)
    y = random.binomial(d.astype(int), random.beta(2, 8, len(d)) / 2 * (1 + lift)).astype(float)
    return {"nonzero": active.astype(float), **_sums_in(active, _products(y, d))}


def _products(y: Numbers, d: Numbers) -> Mapping[str, Numbers]:
    return {"y": y, "yy": y * y, "d": d, "dd": d * d, "yd": y * d}


def with_history(random: np.random.Generator, shape: tuple[int, int], users: int, lift: float) -> Columns:
    """A twentieth of the users paid before, of whom half pay again; half of those who pay are new."""
    before = random.binomial(users, BUYERS, shape)
    habit = lognormal(random, int(before.sum()))
    pays = random.random(len(habit)) < 0.5
    y = pays * habit * random.lognormal(-0.125, 0.5, len(habit)) * (1 + lift)
    new = random.binomial(users, BUYERS / 2, shape)
    of_new = lognormal(random, int(new.sum())) * (1 + lift)
    sums = _sums_in(
        before, {"y": y, "yy": y * y, "x": habit, "xx": habit * habit, "xy": habit * y, "nonzero": pays.astype(float)}
    )
    added = _sums_in(new, {"y": of_new, "yy": of_new * of_new, "nonzero": np.ones(len(of_new))})
    return {name: column + added.get(name, 0.0) for name, column in sums.items()}


# quantiles


def quantiles(
    share: float, random: np.random.Generator, rounds: int, users: tuple[int, int], lift: float
) -> Iterator[Experiment]:
    """Each user has one to three events, whose lognormal values resemble each other."""
    truth = float(np.exp(NormalDist().inv_cdf(share)))
    for _ in range(rounds):
        of_both = [
            _draw_events(random, LOOKS * of_variant, change)
            for of_variant, change in zip(users, (0.0, lift), strict=True)
        ]
        looks = []
        for look in range(1, LOOKS + 1):
            seen = [look * of_variant for of_variant in users]
            groups = EventGroups(
                [(of, events.chosen(events.owners < of)) for of, events in zip(seen, of_both, strict=True)]
            )
            looks.append(([dict(zip(PAIR, find_quantiles(share, groups), strict=True))], truth))
        yield looks


def _draw_events(random: np.random.Generator, users: int, lift: float) -> EventValues:
    owners = np.repeat(np.arange(users), random.integers(1, 4, users))
    logs = 0.8 * random.standard_normal(users)[owners] + 0.6 * random.standard_normal(len(owners))
    return EventValues.of((1 + lift) * np.exp(logs), owners)


SHARE, MEAN, RATIO = Measure("share", "share"), Measure("mean", "mean"), Measure("ratio", "ratio")
SUMS: Mapping[str, Data] = {
    "share of 0.5 %": Data(SHARE, partial(of_columns, partial(shares, 0.005), 0.005)),
    "share of 2 %": Data(SHARE, partial(of_columns, partial(shares, 0.02), 0.02)),
    "share of 20 %": Data(SHARE, partial(of_columns, partial(shares, 0.2), 0.2)),
    "share of 2 %, two phases": Data(SHARE, partial(of_two_phases, partial(shares, 0.02), 0.02)),
    "lognormal values": Data(MEAN, partial(of_columns, partial(values, lognormal), BUYERS)),
    "exponential values": Data(MEAN, partial(of_columns, partial(values, exponential), BUYERS)),
    "Pareto values": Data(MEAN, partial(of_columns, partial(values, pareto), BUYERS)),
    "lognormal values, number of buyers": Data(
        MEAN, partial(of_columns, partial(values, lognormal, adds_buyers=True), BUYERS)
    ),
    "lognormal values, two phases": Data(MEAN, partial(of_two_phases, partial(values, lognormal), BUYERS)),
    "lognormal values, adjusted": Data(MEAN, partial(of_columns, with_history, BUYERS), is_adjusted=True),
    "revenue over sessions": Data(RATIO, partial(of_columns, revenue_of_sessions, 0.1)),
    "clicks over views": Data(RATIO, partial(of_columns, clicks_of_views, 0.1)),
}
QUANTILES: Mapping[str, Data] = {
    f"quantile {share}": Data(Measure("quantile", "quantile", quantile=share), partial(quantiles, share))
    for share in (0.5, 0.9, 0.99)
}


def table(rounds: int, of_quantiles: int) -> Iterator[str]:
    """Yield the lines of the guide's table: the largest share of experiments over all lifts, by data and split.

    Each cell has the share in which what decides was wrong, and behind it that of any interval that was shown.
    """
    yield "| data | " + " | ".join(f"{100 * (1 - split):g}/{100 * split:g}" for split in SPLITS) + " |"
    yield "|---" * (1 + len(SPLITS)) + "|"
    for rows, number, lifts in ((SUMS, rounds, LIFTS), (QUANTILES, of_quantiles, (0.0, -0.5, 1.0))):
        for name, data in rows.items():
            cells = []
            for split in SPLITS:
                errors = [count_errors(data, split=split, lift=lift, rounds=number) for lift in lifts]
                decided, shown = (max(column) for column in zip(*((e.decided, e.shown) for e in errors), strict=True))
                cells.append(f"{100 * decided / number:.1f} ({100 * shown / number:.1f})")
            yield f"| {name} | " + " | ".join(cells) + " |"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Print the guide's table of errors at unequal splits.")
    parser.add_argument("--rounds", type=int, default=1000, help="experiments of each cell and lift")
    parser.add_argument("--of-quantiles", type=int, default=100, help="the same of quantiles, which take longer")
    options = parser.parse_args()
    for line in table(options.rounds, options.of_quantiles):
        print(line, flush=True)
