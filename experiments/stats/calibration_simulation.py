"""Simulations of guardrails, and of an effect: harmed without a difference, safe at the margin, and no difference.

The first is an A/A simulation. The second makes the values of all treatments worse, so that the truth lies exactly at
the margin: "safe" is then an error. The third makes the goal better by the smallest effect of interest, so that the
verdict that there is no difference is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import starmap
from math import copysign

import numpy as np
from numpy.typing import NDArray

from experiments.stats.analysis import analyse
from experiments.stats.guardrails import DEFAULT_MARGIN
from experiments.stats.simulation import (
    Observed,
    Population,
    Quantiles,
    VerdictRate,
    inputs_of,
    sums_at,
    verdict_rates,
)
from experiments.stats.types import Design, GuardrailStatus, Margin, Measure, Quantile

Flags = NDArray[np.bool_]
Statuses = Sequence[Sequence[GuardrailStatus | None]]
"""The status of each comparison at each look."""


@dataclass(frozen=True, slots=True)
class GuardrailRates:
    """How often a guardrail was judged in one treatment: shares (0 to 1) of the splits, at any of the looks.

    `harmed` and `safe` are without a difference. `safe_at_margin` has the truth at the margin; it is None if no values
    have such a truth, such as rates above 1.
    """

    measure: str
    variant: str
    harmed: float
    safe: float
    safe_at_margin: float | None


def simulate_guardrails(
    population: Population,
    design: Design,
    *,
    rounds: int,
    looks: int,
    seed: int,
    on_progress: Callable[[int], object] = lambda _: None,
) -> list[GuardrailRates]:
    """Split the users at random `rounds` times, and judge the guardrails `looks` times at each split.

    `on_progress` is called with 1 after each split. The same seed gives the same splits.
    """
    guardrails = [observed for observed in population.observed if observed.measure.is_guardrail]
    if not guardrails:
        return []
    random, judged = np.random.default_rng(seed), []
    control = _control(design)
    for _ in range(rounds):
        variants = _split(population, design, random)
        worse = [at_margin(observed, variants != control, random) for observed in guardrails]
        changed = [other or observed for observed, other in zip(guardrails, worse, strict=True)]
        judged.append(
            [
                _judge(Population(population.user_ids, observed), design, variants, looks)
                for observed in (guardrails, changed)
            ]
        )
        on_progress(1)
    found = np.array(judged)  # by split, truth, look and comparison
    can_be_worse = [at_margin(observed, np.ones(0, bool), random) is not None for observed in guardrails]
    treatments = [variant.key for variant in design.variants if variant.key != design.control]
    rows = [
        (observed.measure, key, is_possible)
        for observed, is_possible in zip(guardrails, can_be_worse, strict=True)
        for key in treatments
    ]
    return list(starmap(_rates, ((found[..., index], *row) for index, row in enumerate(rows))))


def simulate_smallest_effect(
    population: Population,
    design: Design,
    *,
    rounds: int,
    seed: int,
    on_progress: Callable[[int], object] = lambda _: None,
) -> list[VerdictRate] | None:
    """Split the users at random `rounds` times with the smallest effect of interest, and return the verdicts.

    All treatments have exactly this effect in the first goal. Each split is looked at once, when all users are there: a
    verdict of no difference comes from the planned size on. Return None without a smallest effect or a goal, and if no
    values can have this effect. `on_progress` is called with 1 after each split.
    """
    measures = [observed.measure for observed in population.observed]
    primary = next((index for index, measure in enumerate(measures) if measure.is_registered_goal), None)
    lift = design.plan.minimum_effect
    if primary is None or lift is None:
        return None
    random, control, verdicts = np.random.default_rng(seed), _control(design), []
    for _ in range(rounds):
        variants = _split(population, design, random)
        better = with_lift(population.observed[primary], lift, variants != control, random)
        if better is None:
            return None
        observed = [*population.observed]
        observed[primary] = better
        [sums] = sums_at(Population(population.user_ids, observed), design, variants, population.seen_at(1))
        verdicts.append(analyse(inputs_of(measures, design, sums), is_exact=False).verdict)
        on_progress(1)
    return verdict_rates(verdicts)


def _control(design: Design) -> int:
    return [variant.key for variant in design.variants].index(design.control)


def _split(population: Population, design: Design, random: np.random.Generator) -> NDArray[np.intp]:
    """Return the index of each user's variant, drawn by the weights."""
    shares = np.array([variant.weight for variant in design.variants], float)
    bounds = np.cumsum(shares / shares.sum())[:-1]
    return np.searchsorted(bounds, random.random(len(population.user_ids)), side="right")


def _judge(population: Population, design: Design, variants: NDArray[np.intp], looks: int) -> Statuses:
    measures = [observed.measure for observed in population.observed]
    at_looks = sums_at(population, design, variants, population.seen_at(looks))
    analyses = [analyse(inputs_of(measures, design, sums), is_exact=False) for sums in at_looks]
    return [
        [
            variant.comparison.guardrail.status if variant.comparison.guardrail else None
            for measure in analysis.measures
            for variant in measure.variants
            if variant.comparison
        ]
        for analysis in analyses
    ]


def _rates(statuses: NDArray[np.object_], measure: Measure, key: str, is_possible: bool) -> GuardrailRates:
    without, at_the_margin = statuses[:, 0], statuses[:, 1]
    return GuardrailRates(
        measure.key,
        key,
        harmed=_share(without == "harmed"),
        safe=_share(without == "safe"),
        safe_at_margin=_share(at_the_margin == "safe") if is_possible else None,
    )


def _share(found: Flags) -> float:
    return float(found.any(axis=1).mean())


def at_margin(observed: Observed, is_treated: Flags, random: np.random.Generator) -> Observed | None:
    """Return the values with those of treated users made worse by exactly the margin, on average over all users.

    Rates lose or gain converted users at random. Other values are multiplied for a relative margin, and shifted for an
    absolute one. Return None if no values have such a mean.
    """
    sign = 1 if observed.measure.is_decrease_good else -1
    return _changed(observed, observed.measure.margin or DEFAULT_MARGIN, sign, is_treated, random)


def with_lift(observed: Observed, lift: float, is_treated: Flags, random: np.random.Generator) -> Observed | None:
    """Return the values with those of treated users made better by a lift, as `at_margin` makes them worse."""
    sign = -1 if observed.measure.is_decrease_good else 1
    return _changed(observed, Margin(relative=lift), sign, is_treated, random)


def _changed(
    observed: Observed, by: Margin, sign: int, is_treated: Flags, random: np.random.Generator
) -> Observed | None:
    mean = _mean(observed)
    size = by.absolute if by.relative is None else by.relative * abs(mean)
    if not mean or not size:
        return None
    shift = copysign(size, sign)
    if observed.measure.kind == "share":
        return _thinned(observed, mean, shift, is_treated, random)
    ratio = (mean + shift) / mean
    if observed.quantiles:
        return replace(observed, quantiles=_moved(observed.quantiles, is_treated, by.absolute and shift, ratio))
    if not len(is_treated):
        return observed
    if by.relative is not None:
        return replace(observed, y=np.where(is_treated, ratio * observed.y, observed.y))
    unit = observed.d if observed.measure.kind == "ratio" else observed.is_counted
    return replace(observed, y=observed.y + np.where(is_treated, shift * unit, 0.0))


def _mean(observed: Observed) -> float:
    if observed.quantiles:
        return observed.quantiles(np.where(observed.is_counted > 0, 0, -1), 1)[0].value
    users = observed.d.sum() if observed.measure.kind == "ratio" else observed.is_counted.sum()
    return float(observed.y.sum() / users) if users else 0.0


def _thinned(
    observed: Observed, mean: float, shift: float, is_treated: Flags, random: np.random.Generator
) -> Observed | None:
    changing = -shift / mean if shift < 0 else shift / (1 - mean) if mean < 1 else 2.0
    if changing > 1:
        return None
    if not len(is_treated):
        return observed
    value = float(shift > 0)
    can_change = is_treated & (observed.y != value) & observed.is_counted.astype(bool)
    return replace(observed, y=np.where(can_change & (random.random(len(is_treated)) < changing), value, observed.y))


def _moved(quantiles: Quantiles, is_treated: Flags, shift: float | None, ratio: float) -> Quantiles:
    """Return the function with the values of treated groups moved."""

    def moved(groups: NDArray[np.intp], number: int) -> Sequence[Quantile]:
        treated = set(groups[is_treated].tolist())
        return [
            _move(quantile, shift, ratio) if group in treated else quantile
            for group, quantile in enumerate(quantiles(groups, number))
        ]

    return moved


def _move(quantile: Quantile, shift: float | None, ratio: float) -> Quantile:
    if shift:
        return replace(quantile, value=quantile.value + shift)
    return replace(quantile, value=ratio * quantile.value, squared_error=ratio * ratio * quantile.squared_error)
