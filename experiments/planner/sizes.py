"""The sizes of a plan and of its guardrails: users of all variants and of the smallest one, and days."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from fractions import Fraction
from math import ceil

from config.models import Environment
from experiments.metrics.definition import Definition, definitions_of
from experiments.models import Experiment
from experiments.models.plan import tuning_size_of
from experiments.planner.history import CurrentTotals, History, history_of, reduction_for
from experiments.planner.question import Assumptions
from experiments.stats.planning import (
    Baseline,
    Demands,
    Shares,
    Tolerance,
    always_valid_users_to_be_safe,
    fixed_horizon_users_to_be_safe,
)

_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Size:
    """The users of all variants, and those of the smallest one.

    `days` ends when the windows of the last users are over. It is None if the number of users a day is not known.
    """

    users_per_variant: int
    users: int
    days: int | None


def size_of(users: int, assumptions: Assumptions, maturity_days: int) -> Size:
    days = ceil(users / assumptions.users_per_day) + maturity_days if assumptions.users_per_day else None
    return Size(ceil(users * assumptions.smallest_share), users, days)


def maturity_days_of(definition: Definition | None) -> int:
    """Return the days from a user's exposure to the end of the metric's window; 0 without a window."""
    span = None if definition is None else definition.span
    return 0 if span is None else ceil(span / _DAY)


def tuning_size_for(users: int, shares: Sequence[Fraction]) -> int:
    """Return the tuning size of an experiment with this many planned users. The control's share comes first."""
    variants = [{"weight": share} for share in shares]
    return tuning_size_of({"given_tuning_size": None, "planned_size": users, "variants": variants})


def shares_of(assumptions: Assumptions) -> Shares:
    """Return the shares of the control and of the smallest treatment, which needs the most users."""
    control, *treatments = map(float, assumptions.shares)
    return Shares(min(treatments), control)


def baseline_of(assumptions: Assumptions) -> Baseline:
    return Baseline(assumptions.baseline, assumptions.standard_deviation, assumptions.variance_reduction)


def demands_of(assumptions: Assumptions) -> Demands:
    return Demands(
        alpha=assumptions.alpha,
        power=assumptions.power,
        treatments=assumptions.variants - 1,
        tuning_size=assumptions.tuning_size,
        is_planned=assumptions.is_planned,
    )


MAX_USERS = 10**12
"""No experiment could have more users."""


@dataclass(frozen=True, slots=True)
class GuardrailPlan:
    """The users until a guardrail is shown safe, with the required power, if there is no difference.

    Both sizes are None without past data, or if more users would be needed than exist.
    """

    definition: Definition
    baseline: Baseline | None
    fixed_horizon: Size | None = None
    always_valid: Size | None = None

    @property
    def tolerance(self) -> Tolerance:
        definition = self.definition
        return Tolerance(definition.relative_margin, definition.margin_absolute, definition.is_decrease_good)


def plan_guardrails(
    experiment: Experiment,
    assumptions: Assumptions,
    environment: Environment,
    now: datetime,
    current: CurrentTotals | None,
) -> list[GuardrailPlan]:
    """Return a plan for each guardrail that was registered before the start, in the order of the metrics."""
    return [
        _plan(definition, history_of(definition, environment, now, current), experiment, assumptions)
        for definition in _registered(experiment)
    ]


def _registered(experiment: Experiment) -> Iterator[Definition]:
    return (
        definition
        for definition in definitions_of(experiment)
        if definition.is_guardrail and not definition.is_post_hoc
    )


def _plan(
    definition: Definition, history: History | None, experiment: Experiment, assumptions: Assumptions
) -> GuardrailPlan:
    if history is None or history.baseline is None:
        return GuardrailPlan(definition, None)
    reduction = reduction_for(history, experiment)
    plan = GuardrailPlan(definition, Baseline(history.baseline, history.standard_deviation, reduction))
    assert plan.baseline is not None  # noqa: S101 (set above)
    arguments = plan.baseline, plan.tolerance, demands_of(assumptions), shares_of(assumptions)
    fixed = fixed_horizon_users_to_be_safe(*arguments)
    if fixed > MAX_USERS:
        return plan
    sizes = (fixed, always_valid_users_to_be_safe(*arguments))
    return GuardrailPlan(
        definition, plan.baseline, *(size_of(users, assumptions, maturity_days_of(definition)) for users in sizes)
    )
