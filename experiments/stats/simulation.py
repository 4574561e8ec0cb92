"""A/A simulation: split users at random many times, and count how often the tests find a difference.

No split changes anything for the users, so every difference that a test finds is a false positive.
Each split uses the same code as a real experiment: the published hash, the sums over users, and the
tests of the results.
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
Detections = NDArray[np.bool_]
"""Whether a test finds a difference, in the shape (split, look, test).

The tests are the always-valid and the fixed-horizon one, in this order.
"""


@dataclass(frozen=True, slots=True)
class Observed:
    """The values of one measure: y, d and x as in `Sums`, one number for each user, in their order."""

    measure: Measure
    y: Numbers
    d: Numbers
    x: Numbers

    @property
    def has_history(self) -> bool:
        """Return whether CUPED can be tried: not for a ratio, and only if some user was active before."""
        return self.measure.kind != "ratio" and bool(self.x.any())

    def products(self) -> Iterator[tuple[str, Numbers]]:
        """Yield the values that the tests need sums of, with the name of each sum in `Sums`."""
        y, d, x = self.y, self.d, self.x
        yield from {"y": y, "yy": y * y, "x": x, "xx": x * x, "xy": x * y}.items()
        if self.measure.kind == "ratio":
            yield from {"d": d, "dd": d * d, "yd": y * d}.items()


@dataclass(frozen=True, slots=True)
class Population:
    """Users in the order of their exposures, and the values of each measure."""

    user_ids: Sequence[str]
    observed: Sequence[Observed]

    def seen_at(self, looks: int) -> list[int]:
        """Return how many users each look sees: equal steps, up to all users at the last look."""
        return [-(-len(self.user_ids) * look // looks) for look in range(1, looks + 1)]


@dataclass(frozen=True, slots=True)
class Comparison:
    """A measure of a treatment compared with the control, with or without CUPED."""

    measure: str
    variant: str
    is_cuped: bool


@dataclass(frozen=True, slots=True)
class Look:
    """The share of splits (0 to 1) in which a test has found a difference at this look or an earlier one."""

    users: int
    always_valid: float
    fixed_horizon: float


@dataclass(frozen=True, slots=True)
class ErrorRates:
    """The error rates of one comparison over the `splits` that can be tested at the last look.

    The coverages are the shares (0 to 1) of these splits in which the last interval contains 0.
    """

    comparison: Comparison
    splits: int
    looks: Sequence[Look]
    always_valid_coverage: float
    fixed_horizon_coverage: float


@dataclass(frozen=True, slots=True)
class Simulation:
    """The outcome of a simulation.

    `untested` are the comparisons that no split can test, for example because all users are equal.
    `sample_ratio` is the share of splits in which the check finds a sample ratio mismatch (p < 0.001).
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
    """Split the users `rounds` times, and look `looks` times at each split (at most once per user).

    The same seed gives the same splits. `on_progress` is called with 1 after each of them.
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
    # From (split, look, comparison, test) to one array of Detections for each comparison.
    by_comparison = np.array(detections).transpose(2, 0, 1, 3)
    rows = list(zip(comparisons(population, design), by_comparison, np.array(tested).T, strict=True))
    return Simulation(
        [
            _error_rates(comparison, detected[testable], seen)
            for comparison, detected, testable in rows
            if testable.any()
        ],
        [comparison for comparison, _, testable in rows if not testable.any()],
        _looks(np.array(mismatched), seen),
    )


def split(population: Population, design: Design, *, salt: str, looks: int) -> list[list[Mapping[str, Sums]]]:
    """Assign each user by the hash with this salt, and return the sums that each look sees.

    The outer list has one entry for each look, the inner one a mapping for each measure, with the
    sums by variant key.
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
    """Return the estimate of each of the `comparisons` at one look.

    `sums` has one mapping for each measure, with the sums by variant key.
    """
    results: list[Estimate | Reason] = []
    for observed, of_measure in zip(population.observed, sums, strict=True):
        samples = {key: summarise(observed.measure.kind, of_variant) for key, of_variant in of_measure.items()}
        results += _differences(samples, design)
        if observed.has_history:
            adjusted = adjust(observed.measure.kind, of_measure)
            results += _differences(adjusted.samples if isinstance(adjusted, Adjustment) else {}, design)
    return results


def comparisons(population: Population, design: Design) -> list[Comparison]:
    """Return the comparison of every measure and treatment, and one with CUPED where it can be tried."""
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


def _error_rates(comparison: Comparison, detected: Detections, seen: Sequence[int]) -> ErrorRates:
    # An interval contains 0 exactly where its test finds nothing.
    always_valid, fixed_horizon = (1 - detected[:, -1].mean(axis=0)).tolist()
    return ErrorRates(comparison, len(detected), _looks(detected, seen), always_valid, fixed_horizon)


def _looks(detected: Detections, seen: Sequence[int]) -> list[Look]:
    until_then = np.logical_or.accumulate(detected, axis=1).mean(axis=0)
    return [Look(users, *rates) for users, rates in zip(seen, until_then.tolist(), strict=True)]
