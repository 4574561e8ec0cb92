"""How often the statistics err: users split anew at random many times, so that whatever is found is found wrongly.

Each split goes through what a real one goes through: the published hash, sums over users, and the tests of the results.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from experiments.stats import sample_ratio
from experiments.stats.cuped import Adjustment, adjust
from experiments.stats.effects import difference
from experiments.stats.samples import NO_USERS, Sample, summarise
from experiments.stats.types import Design, Estimate, Measure, Reason, Sums
from flags.engine.bucketing import bucket, split_bounds

Numbers = NDArray[np.float64]
Found = NDArray[np.bool_]
"""Whether the always-valid and the fixed-horizon test have found something: by split, look, and test."""


@dataclass(frozen=True, slots=True)
class Observed:
    """What one measure counts of each user: y, d and x as in `Sums`, in the order of the users."""

    measure: Measure
    y: Numbers
    d: Numbers
    x: Numbers

    @property
    def has_history(self) -> bool:
        """Whether what the users did before their exposure may tell something of what they did after it."""
        return self.measure.kind != "ratio" and bool(self.x.any())

    def products(self) -> Iterator[tuple[str, Numbers]]:
        """What the tests need the sums of, by the names that these have in `Sums`."""
        y, d, x = self.y, self.d, self.x
        yield from {"y": y, "yy": y * y, "x": x, "xx": x * x, "xy": x * y}.items()
        if self.measure.kind == "ratio":
            yield from {"d": d, "dd": d * d, "yd": y * d}.items()


@dataclass(frozen=True, slots=True)
class Population:
    """Users in the order of their exposures, and what is observed of them."""

    user_ids: Sequence[str]
    observed: Sequence[Observed]

    def seen_at(self, looks: int) -> list[int]:
        """How many users each look sees: the same number more each time, and all at the last."""
        return [-(-len(self.user_ids) * look // looks) for look in range(1, looks + 1)]


@dataclass(frozen=True, slots=True)
class Comparison:
    """A measure of a treatment against control, with CUPED or without."""

    measure: str
    variant: str
    is_cuped: bool


@dataclass(frozen=True, slots=True)
class Look:
    """The share of splits, 0 to 1, in which a test has found something among so many users or fewer."""

    users: int
    always_valid: float
    fixed_horizon: float


@dataclass(frozen=True, slots=True)
class ErrorRates:
    """Of the splits that can be tested at the last look, of which there are `splits`.

    The coverages: in what share of them, 0 to 1, the interval of the last look has 0 in it.
    """

    comparison: Comparison
    splits: int
    looks: Sequence[Look]
    always_valid_coverage: float
    fixed_horizon_coverage: float


@dataclass(frozen=True, slots=True)
class Simulation:
    """`sample_ratio`: in how many splits the users seem to be split otherwise than by the weights, p < 0.001.

    `untested` are the comparisons that no split can test, as where everybody does the same.
    """

    errors: Sequence[ErrorRates]
    untested: Sequence[Comparison]
    sample_ratio: Sequence[Look]


def simulate(
    population: Population,
    design: Design,
    *,
    rounds: int,
    looks: int,
    seed: int,
    on_progress: Callable[[int], object] = lambda _: None,
) -> Simulation:
    """Split the users `rounds` times, and look `looks` times (as many as there are users, or fewer) at each split.

    The same seed draws the same splits. `on_progress` hears of each of them.
    """
    salts = random.Random(seed)  # noqa: S311 (no secret)
    detections, tested, mismatched = [], [], []
    for _ in range(rounds):
        at_looks = split(population, design, salt=f"{salts.getrandbits(64):016x}", looks=looks)
        by_look = [estimates(population, design, sums) for sums in at_looks]
        detections.append([[_finds(estimate, design) for estimate in look] for look in by_look])
        tested.append([not isinstance(estimate, Reason) for estimate in by_look[-1]])
        mismatched.append([_finds_mismatch(sums[0], design) for sums in at_looks])
        on_progress(1)
    seen = population.seen_at(looks)
    by_comparison = np.array(detections).transpose(2, 0, 1, 3)
    compared = list(zip(comparisons(population, design), by_comparison, np.array(tested).T, strict=True))
    return Simulation(
        [_error_rates(comparison, of[can], seen) for comparison, of, can in compared if can.any()],
        [comparison for comparison, _, can in compared if not can.any()],
        _looks(np.array(mismatched), seen),
    )


def split(population: Population, design: Design, *, salt: str, looks: int) -> list[list[Mapping[str, Sums]]]:
    """Give each user the variant that the hash gives with this salt, and sum up what each look sees.

    Returns for each look, and for each measure in turn, the sums by variant key.
    """
    keys = [variant.key for variant in design.variants]
    buckets = [bucket(f"{salt}:variant", user_id) for user_id in population.user_ids]
    variants = np.searchsorted(split_bounds(variant.weight for variant in design.variants), buckets, side="right")
    first_look = np.searchsorted(population.seen_at(looks), np.arange(len(buckets)), side="right")
    cells = first_look * len(keys) + variants

    def seen(values: Numbers | None = None) -> Numbers:
        return np.bincount(cells, values, looks * len(keys)).reshape(looks, len(keys)).cumsum(axis=0)

    users = seen().astype(int).tolist()
    totals = [{name: seen(values).tolist() for name, values in measured.products()} for measured in population.observed]
    return [
        [
            {
                key: Sums(users[look][index], **{name: total[look][index] for name, total in of_measure.items()})
                for index, key in enumerate(keys)
            }
            for of_measure in totals
        ]
        for look in range(looks)
    ]


def estimates(population: Population, design: Design, sums: Sequence[Mapping[str, Sums]]) -> list[Estimate | Reason]:
    """What one look tells of each of the `comparisons`, given for each measure in turn the sums by variant key."""
    results: list[Estimate | Reason] = []
    for observed, of_measure in zip(population.observed, sums, strict=True):
        samples = {key: summarise(observed.measure.kind, of_variant) for key, of_variant in of_measure.items()}
        results += _differences(samples, design)
        if observed.has_history:
            adjusted = adjust(observed.measure.kind, of_measure)
            results += _differences(adjusted.samples if isinstance(adjusted, Adjustment) else {}, design)
    return results


def comparisons(population: Population, design: Design) -> list[Comparison]:
    """Every measure of every treatment against control, and once more with CUPED where there is history."""
    return [
        Comparison(observed.measure.key, variant, is_cuped)
        for observed in population.observed
        for is_cuped in ((False, True) if observed.has_history else (False,))
        for variant in _treatments(design)
    ]


def _differences(samples: Mapping[str, Sample | Reason], design: Design) -> list[Estimate | Reason]:
    control = samples.get(design.control, NO_USERS)
    treatments = [samples.get(key, NO_USERS) for key in _treatments(design)]
    return [
        NO_USERS
        if isinstance(treatment, Reason) or isinstance(control, Reason)
        else difference(treatment, control, design)
        for treatment in treatments
    ]


def _treatments(design: Design) -> list[str]:
    return [variant.key for variant in design.variants if variant.key != design.control]


def _finds(estimate: Estimate | Reason, design: Design) -> tuple[bool, bool]:
    if isinstance(estimate, Reason):
        return False, False
    return estimate.always_valid.p_value < design.alpha, estimate.fixed_horizon.p_value < design.alpha


def _finds_mismatch(sums: Mapping[str, Sums], design: Design) -> tuple[bool, bool]:
    ratio = sample_ratio.check(design.variants, {key: of_variant.n for key, of_variant in sums.items()})
    if isinstance(ratio, Reason):
        return False, False
    return ratio.is_mismatch, ratio.chi_square_p < sample_ratio.MISMATCH


def _error_rates(comparison: Comparison, detected: Found, seen: Sequence[int]) -> ErrorRates:
    # An interval has 0 in it exactly where its test finds nothing.
    always_valid, fixed_horizon = (1 - detected[:, -1].mean(axis=0)).tolist()
    return ErrorRates(comparison, len(detected), _looks(detected, seen), always_valid, fixed_horizon)


def _looks(detected: Found, seen: Sequence[int]) -> list[Look]:
    until_then = np.logical_or.accumulate(detected, axis=1).mean(axis=0)
    return [Look(users, *rates) for users, rates in zip(seen, until_then.tolist(), strict=True)]
