"""How far an experiment is on its plan: the planned numbers of users."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import ceil

from experiments.stats.types import Design, Inputs, Plan, Weight


def planned_users(design: Design) -> Mapping[str, int]:
    """Return the planned users of each variant that gets users; empty without a planned size."""
    return {} if design.plan.size is None else split_size(design.plan.size, design.plan.variants or design.variants)


def split_size(size: int, variants: Sequence[Weight]) -> Mapping[str, int]:
    """Return each variant's part of a number of users, rounded up, for variants that get users.

    Weights are taken as written in decimal: with floats, 60 % of 1,000 users would be 601.
    """
    weights = {variant.key: Fraction(str(variant.weight)) for variant in variants if variant.weight}
    total = sum(weights.values())
    return {key: ceil(size * weight / total) for key, weight in weights.items()}


def weighted_keys(design: Design) -> Sequence[str]:
    """Return the variants that get users, or got users at the start, in the order of the design."""
    weighted = {variant.key for variant in (*design.variants, *design.plan.variants) if variant.weight}
    return [variant.key for variant in design.variants if variant.key in weighted]


def counted_users(inputs: Inputs, measure: int) -> Mapping[str, int]:
    """Return the users that a measure counts, by variant key."""
    return {
        variant.key: sum(
            stratum.sums[measure][variant.key].n for stratum in inputs.strata if variant.key in stratum.sums[measure]
        )
        for variant in inputs.design.variants
    }


def primary_index(inputs: Inputs) -> int | None:
    """Return the index of the measure that decides: the first goal that was registered before the start."""
    return next((index for index, measure in enumerate(inputs.measures) if measure.is_registered_goal), None)


def is_unread(plan: Plan) -> bool:
    """Return whether the results wait for the one reading of a fixed analysis."""
    return plan.analysis == "fixed" and not plan.is_read


def is_fixed_reading(plan: Plan) -> bool:
    """Return whether these are the results of the one reading of a fixed analysis."""
    return plan.analysis == "fixed" and plan.is_read
