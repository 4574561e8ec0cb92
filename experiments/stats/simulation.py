"""A/A simulation: split users at random many times, and count how often the tests find a difference.

No split changes anything for the users, so every difference that a test finds is a false positive. Splits use the code
of real experiments: the published hash, the sums over users, and the whole analysis.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from experiments.stats.analysis import analyse, uncorrected_effects
from experiments.stats.outcomes import Analysis, Decision, SampleRatio, Verdict
from experiments.stats.sample_ratio import MISMATCH
from experiments.stats.types import Design, Estimate, Inputs, Measure, Quantile, Reason, Stratum, Sums
from flags.engine.bucketing import bucket, split_bounds

Numbers = NDArray[np.float64]
Detections = NDArray[np.bool_]
"""Whether a test finds a difference, by split, look and test. The always-valid test comes first, then the fixed-horizon
one.
"""
_ENDS = (Decision.SHIP, Decision.DO_NOT_SHIP, Decision.NO_DIFFERENCE)
BySums = Mapping[str, Sums | Quantile]
Quantiles = Callable[[NDArray[np.intp], int], Sequence[Quantile]]
"""Returns the quantile of each group, from the group of each user (from 0, or -1 for none) and the number of groups."""


@dataclass(frozen=True, slots=True)
class Observed:
    """The values of a measure: y, d, x and e as in `Sums`, a number for each user, in their order.

    `mature` is 1 for users who count, and 0 for users whose window is open, whose values are 0. Without it, all count.

    For a quantile, `quantiles` returns it for groups of users, and y is the number of events of each user. The other
    values are not read.
    """

    measure: Measure
    y: Numbers
    d: Numbers
    x: Numbers
    e: Numbers = field(default_factory=lambda: np.zeros(0))
    quantiles: Quantiles | None = None
    mature: Numbers | None = None

    @property
    def is_counted(self) -> Numbers:
        """Return 1 for each user who counts, and 0 for the others."""
        return np.ones(len(self.y)) if self.mature is None else self.mature

    @property
    def has_history(self) -> bool:
        """Return whether CUPED can be tried: if a user was active before the exposure."""
        return self.measure.kind != "quantile" and bool((self.e if self.measure.kind == "ratio" else self.x).any())

    def products(self) -> Iterator[tuple[str, Numbers]]:
        """Yield the values that the tests need sums of, by their names in `Sums`."""
        y, d, x, e = self.y, self.d, self.x, self.e
        yield from {"y": y, "yy": y * y, "x": x, "xx": x * x, "xy": x * y}.items()
        if self.measure.kind == "ratio":
            yield from {"d": d, "dd": d * d, "yd": y * d}.items()
            if e.any():
                yield from {"e": e, "ee": e * e, "xe": x * e, "ye": y * e, "dx": d * x, "de": d * e}.items()


@dataclass(frozen=True, slots=True)
class Population:
    """Users in the order of their exposures, and the values of each measure."""

    user_ids: Sequence[str]
    observed: Sequence[Observed]

    def seen_at(self, looks: int) -> list[int]:
        """Return how many users each look sees: equal steps, up to all users."""
        return [-(-len(self.user_ids) * look // looks) for look in range(1, looks + 1)]


@dataclass(frozen=True, slots=True)
class Comparison:
    """A measure of a treatment compared with the control, with or without CUPED."""

    measure: str
    variant: str
    is_cuped: bool


@dataclass(frozen=True, slots=True)
class Look:
    """The share of splits (0 to 1) in which a test has found a difference by this look."""

    users: int
    always_valid: float
    fixed_horizon: float


@dataclass(frozen=True, slots=True)
class ErrorRates:
    """The error rates of a comparison over the `splits` that can be tested at the last look.

    `looks` are of the difference, and `lifts` of the lift. No test is corrected for the others. The coverages are the
    shares (0 to 1) of these splits in which the last interval of the difference contains 0.
    """

    comparison: Comparison
    splits: int
    looks: Sequence[Look]
    lifts: Sequence[Look]
    always_valid_coverage: float
    fixed_horizon_coverage: float


@dataclass(frozen=True, slots=True)
class Labels:
    """The share of splits (0 to 1) in which the results were wrong by a look.

    `primary` and `others` are the two families of goals: at least one treatment was labelled better or worse, after the
    correction. `guardrails` were called harmed. `shipped` and `rejected` are verdicts to ship a treatment, or none.
    """

    users: int
    primary: float
    others: float
    guardrails: float
    shipped: float
    rejected: float


@dataclass(frozen=True, slots=True)
class VerdictRate:
    """The share of splits (0 to 1) that ended with a decision by one of the rules in `verdict.RULES`.

    A split ends at the first look at which the verdict is to ship a treatment, to ship none, or that there is no
    difference, and otherwise at the last.
    """

    rule: str
    decision: Decision
    share: float


@dataclass(frozen=True, slots=True)
class Simulation:
    """The outcome of a simulation.

    `untested` are comparisons that no split can test, for example because all users are equal. `sample_ratio` is the
    share of splits with a sample ratio mismatch (p < 0.001).
    """

    errors: Sequence[ErrorRates]
    untested: Sequence[Comparison]
    sample_ratio: Sequence[Look]
    labels: Sequence[Labels]
    verdicts: Sequence[VerdictRate] = ()


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

    The same seed gives the same splits. `on_progress` is called with 1 after each. If the design is adjusted, the
    labels rest on the comparisons with CUPED.
    """
    salts = random.Random(seed)  # noqa: S311 (no secret)
    detections, tested, mismatched, labelled, verdicts = [], [], [], [], []
    measures = [observed.measure for observed in population.observed]
    for _ in range(rounds):
        at_looks = split(population, design, salt=f"{salts.getrandbits(64):016x}", looks=looks)
        by_look = [estimates(population, design, sums) for sums in at_looks]
        analyses = [analyse(inputs_of(measures, design, sums), is_exact=False) for sums in at_looks]
        detections.append([[_finds(effect, design) for effect in look] for look in by_look])
        tested.append([_is_tested(effect[0]) for effect in by_look[-1]])
        mismatched.append([_finds_mismatch(analysis) for analysis in analyses])
        labelled.append([_labels(measures, analysis) for analysis in analyses])
        verdicts.append(final_verdict([analysis.verdict for analysis in analyses]))
        on_progress(1)
    seen = population.seen_at(looks)
    # From (split, look, comparison, test) to one array of (split, look, test) for each comparison.
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
        [Labels(users, *rates) for users, rates in zip(seen, _until_then(np.array(labelled)), strict=True)],
        verdict_rates(verdicts),
    )


def final_verdict(at_looks: Sequence[Verdict]) -> Verdict:
    """Return the verdict that ends an experiment (see `VerdictRate`)."""
    return next((verdict for verdict in at_looks if verdict.decision in _ENDS), at_looks[-1])


def verdict_rates(verdicts: Sequence[Verdict]) -> list[VerdictRate]:
    """Return how often each rule decided what, the most frequent first."""
    counts = Counter((verdict.rule, verdict.decision) for verdict in verdicts)
    return [VerdictRate(*decided, count / len(verdicts)) for decided, count in counts.most_common()]


def split(population: Population, design: Design, *, salt: str, looks: int) -> list[list[BySums]]:
    """Assign users by the hash with this salt, and return the sums that each look sees.

    The outer list is by look, the inner one by measure, and the mapping by variant key.
    """
    buckets = [bucket(f"{salt}:variant", user_id) for user_id in population.user_ids]
    variants = np.searchsorted(split_bounds(variant.weight for variant in design.variants), buckets, side="right")
    return sums_at(population, design, variants, population.seen_at(looks))


def sums_at(
    population: Population, design: Design, variants: NDArray[np.intp], seen_at: Sequence[int]
) -> list[list[BySums]]:
    """Return the sums that each look sees. `variants` has the index of each user's variant in the design.

    `seen_at` has the number of users at each look, and all users at the last.
    """
    keys, looks = [variant.key for variant in design.variants], len(seen_at)
    first_look = np.searchsorted(seen_at, np.arange(len(variants)), side="right")
    cells = first_look * len(keys) + variants

    def seen(values: Numbers | None = None) -> Numbers:
        return np.bincount(cells, values, looks * len(keys)).reshape(looks, len(keys)).cumsum(axis=0)

    users = seen().astype(int).tolist()

    def of_measure(observed: Observed) -> list[BySums]:
        if observed.quantiles:
            groups = np.where(observed.is_counted > 0, variants, -1)
            return [
                dict(zip(keys, observed.quantiles(np.where(first_look > look, -1, groups), len(keys)), strict=True))
                for look in range(looks)
            ]
        totals = {name: seen(values).tolist() for name, values in observed.products()}
        is_nonzero = (observed.y != 0) | (observed.d != 0 if observed.measure.kind == "ratio" else False)
        nonzero = seen(is_nonzero.astype(float)).astype(int).tolist()
        counted = users if observed.mature is None else seen(observed.mature).astype(int).tolist()
        return [
            {
                key: Sums(
                    counted[look][index],
                    nonzero[look][index],
                    **{name: total[look][index] for name, total in totals.items()},
                )
                for index, key in enumerate(keys)
            }
            for look in range(looks)
        ]

    return [list(of_look) for of_look in zip(*map(of_measure, population.observed), strict=True)]


def inputs_of(measures: Sequence[Measure], design: Design, sums: Sequence[BySums]) -> Inputs:
    """Return the input of an analysis at one look. `sums` is by measure."""
    users = {key: of_variant.n for key, of_variant in sums[0].items()}
    return Inputs(design, measures, [Stratum(design.variants, users, sums)], users)


def estimates(
    population: Population, design: Design, sums: Sequence[BySums]
) -> list[tuple[Estimate | Reason, Estimate | Reason]]:
    """Return the difference and the lift of each of the `comparisons` at one look, not corrected for others.

    `sums` is by measure and variant key.
    """
    inputs = inputs_of([observed.measure for observed in population.observed], design, sums)
    return [
        effect
        for index, observed in enumerate(population.observed)
        for is_cuped in _kinds(observed, design)
        for effect in uncorrected_effects(inputs, index, is_adjusted=is_cuped).values()
    ]


def comparisons(population: Population, design: Design) -> list[Comparison]:
    """Return the comparison of every measure and treatment, and one with CUPED if it can be tried."""
    return [
        Comparison(observed.measure.key, variant.key, is_cuped)
        for observed in population.observed
        for is_cuped in _kinds(observed, design)
        for variant in design.variants
        if variant.key != design.control
    ]


def _kinds(observed: Observed, design: Design) -> tuple[bool, ...]:
    return (False, True) if design.is_adjusted and observed.has_history else (False,)


def _is_tested(difference: Estimate | Reason) -> bool:
    """Return whether users differ, so that the test could find something."""
    return isinstance(difference, Estimate) and bool(difference.estimate or difference.standard_error)


def _finds(effect: tuple[Estimate | Reason, Estimate | Reason], design: Design) -> list[bool]:
    """Return what the two tests of the difference find, and those of the lift."""
    difference, lift = effect
    found = [False, False] if isinstance(difference, Reason) else _below(difference, design)
    if isinstance(lift, Reason):
        return [*found, False, False]
    return [*found, bool(lift.always_valid.sign), bool(lift.fixed_horizon.sign)]


def _below(difference: Estimate, design: Design) -> list[bool]:
    return [difference.always_valid.p_value < design.alpha, difference.fixed_horizon.p_value < design.alpha]


def _finds_mismatch(analysis: Analysis) -> tuple[bool, bool]:
    ratio = analysis.sample_ratio
    if not isinstance(ratio, SampleRatio):
        return False, False
    return ratio.is_mismatch, ratio.chi_square_p < MISMATCH


def _labels(measures: Sequence[Measure], analysis: Analysis) -> list[bool]:
    """Return whether the results of a look are wrong, in the order of `Labels`."""
    labelled = [
        any(variant.comparison and variant.comparison.label != "unclear" for variant in measure.variants)
        for measure in analysis.measures
    ]
    goals = [found for measure, found in zip(measures, labelled, strict=True) if measure.is_registered_goal]
    decision = analysis.verdict.decision
    return [
        any(goals[:1]),
        any(goals[1:]),
        any(analysis.harmed.values()),
        decision == Decision.SHIP,
        decision == Decision.DO_NOT_SHIP,
    ]


def _error_rates(comparison: Comparison, detected: Detections, seen: Sequence[int]) -> ErrorRates:
    # An interval contains 0 exactly where its test finds nothing.
    always_valid, fixed_horizon = (1 - detected[:, -1, :2].mean(axis=0)).tolist()
    of_differences, of_lifts = _looks(detected[..., :2], seen), _looks(detected[..., 2:], seen)
    return ErrorRates(comparison, len(detected), of_differences, of_lifts, always_valid, fixed_horizon)


def _looks(detected: Detections, seen: Sequence[int]) -> list[Look]:
    return [Look(users, *rates) for users, rates in zip(seen, _until_then(detected), strict=True)]


def _until_then(found: Detections) -> list[list[float]]:
    """Return the share of splits with a finding at each look or before it."""
    rates: list[list[float]] = np.logical_or.accumulate(found, axis=1).mean(axis=0).tolist()
    return rates
