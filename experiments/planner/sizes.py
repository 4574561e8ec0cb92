"""The sizes of a plan: users per variant, users of all variants, and the days that both take. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from fractions import Fraction
from math import ceil

from experiments.metrics.definition import Definition
from experiments.models.plan import tuning_size_of
from experiments.planner.question import Assumptions
from experiments.stats.planning import Baseline, Demands

_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Size:
    """The users that are needed until each variant has enough.

    `days` ends when the windows of the last users are over. It is None where the number of users a day
    is not known.
    """

    users_per_variant: int
    users: int
    days: int | None


def size_of(users_per_variant: int, assumptions: Assumptions, maturity_days: int) -> Size:
    users = ceil(users_per_variant / assumptions.smallest_share)
    days = ceil(users / assumptions.users_per_day) + maturity_days if assumptions.users_per_day else None
    return Size(users_per_variant, users, days)


def maturity_days_of(definition: Definition | None) -> int:
    """Return the days from a user's exposure to the end of the metric's window; 0 without a window."""
    span = None if definition is None else definition.span
    return 0 if span is None else ceil(span / _DAY)


def tuning_size_for(users_per_variant: int, shares: Sequence[Fraction]) -> int:
    """Return the tuning size of an experiment that is planned for so many users in its smallest variant.

    `shares` are the shares of users of the variants, the control first.
    """
    planned = ceil(users_per_variant / min(shares))
    variants = [{"weight": share} for share in shares]
    return tuning_size_of({"given_tuning_size": None, "planned_size": planned, "variants": variants})


def baseline_of(assumptions: Assumptions) -> Baseline:
    return Baseline(assumptions.baseline, assumptions.standard_deviation, assumptions.variance_reduction)


def demands_of(assumptions: Assumptions) -> Demands:
    return Demands(
        alpha=assumptions.alpha,
        power=assumptions.power,
        treatments=assumptions.variants - 1,
        tuning_size=assumptions.tuning_size,
    )
