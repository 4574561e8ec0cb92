"""How far an experiment is on its plan: the planned numbers of users."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from experiments.stats.types import Design, Inputs, Measure, Plan, Weight


def planned_users(design: Design) -> Mapping[str, int]:
    """Return the planned users of each variant that gets users; empty without a planned size."""
    return {} if design.plan.size is None else split_size(design.plan.size, design.plan.variants or design.variants)


def split_size(size: int, variants: Sequence[Weight]) -> Mapping[str, int]:
    """Return each variant's part of a number of users, rounded up, for variants that get users.

    Weights are taken as written in decimal: with floats, 60 % of 1,000 users would be 601.
    """
    weights = exact_weights(variants)
    total = sum(weights.values())
    return {key: ceil(size * weight / total) for key, weight in weights.items()}


def weighted_keys(design: Design) -> Sequence[str]:
    """Return the variants that get users, or got users at the start, in the order of the design."""
    weighted = {variant.key for variant in (*design.variants, *design.plan.variants) if variant.weight}
    return [variant.key for variant in design.variants if variant.key in weighted]


@dataclass(frozen=True, slots=True)
class Part:
    """The users of a treatment and of the control in a stratum, whose part of all compared users is `weight`."""

    weight: float
    treatment: int
    control: int


@dataclass(frozen=True, slots=True)
class PlannedPair:
    """The planned users of a treatment and of the control."""

    treatment: Fraction
    control: Fraction

    @property
    def users(self) -> float:
        return float(self.treatment + self.control)

    @property
    def least(self) -> float:
        """The fewest users who can give the planned information: if they are split in halves."""
        return float(4 * self.treatment * self.control / (self.treatment + self.control))

    def share(self, parts: Sequence[Part], *, is_as_planned: bool) -> float:
        """Return the part of the planned information that these users give.

        It is their part of the planned users where all were assigned by the weights of the plan. With others, the
        information is the inverse of the variance of a difference, for one user's variance.
        """
        if is_as_planned:
            return sum(part.treatment + part.control for part in parts) / self.users
        variance = sum(part.weight * part.weight * (1 / part.treatment + 1 / part.control) for part in parts)
        return 1 / variance / float(self.treatment * self.control / (self.treatment + self.control))

    def is_split_of(self, treatment: Fraction, control: Fraction) -> bool:
        """Return whether weights split the two as planned."""
        return treatment * self.control == control * self.treatment


def planned_pair(design: Design, measure: Measure, key: str) -> PlannedPair | None:
    """Return the planned users of a comparison whose boundary follows from the plan; None for any other.

    These are the goals of a sequential plan that count mature users only. Without a window, users go on to gain events
    while their number stands still, so that it says nothing of the information. Guardrails do not wait for the plan,
    because harm should be seen early.
    """
    plan = design.plan
    if plan.analysis != "sequential" or not plan.sets_boundary or plan.size is None:
        return None
    if not (measure.is_registered_goal and measure.counts_mature_users):
        return None
    weights = exact_weights(plan.variants or design.variants)
    treatment, control = (plan.size * weights.get(name, Fraction(0)) for name in (key, design.control))
    total = sum(weights.values())
    return PlannedPair(treatment / total, control / total) if treatment and control else None


def exact_weights(variants: Sequence[Weight]) -> Mapping[str, Fraction]:
    """Return the weights of the variants that get users, as written in decimal."""
    return {variant.key: Fraction(str(variant.weight)) for variant in variants if variant.weight}


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
