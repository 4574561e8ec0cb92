"""The users that the guardrails of an experiment need until they are shown safe, if there is no difference."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from config.models import Environment
from experiments.metrics.definition import Definition
from experiments.metrics.documents import definitions_of
from experiments.models import Experiment
from experiments.planner.current_totals import CurrentTotals
from experiments.planner.history import History, history_of, reduction_for
from experiments.planner.question import Assumptions
from experiments.planner.sizes import Size, demands_of, maturity_days_of, size_of
from experiments.stats.planning import (
    Baseline,
    Tolerance,
    always_valid_users_to_be_safe,
    fixed_horizon_users_to_be_safe,
)

MOST_USERS = 10**12
"""More users per variant than this are none that an experiment could have."""


@dataclass(frozen=True, slots=True)
class GuardrailPlan:
    """The users until a guardrail is shown safe, with the required power.

    Both sizes are None where the metric has no past data, or would need more users than there are.
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
    at: datetime,
    current: CurrentTotals | None,
) -> list[GuardrailPlan]:
    """Return a plan for each guardrail that was registered before the start, in the order of the metrics."""
    return [
        _plan(definition, history_of(definition, environment, at, current), experiment, assumptions)
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
    assert plan.baseline is not None  # noqa: S101 (given above)
    given = plan.baseline, plan.tolerance, demands_of(assumptions), float(assumptions.smallest_share)
    fixed = fixed_horizon_users_to_be_safe(*given)
    if fixed > MOST_USERS:
        return plan
    sizes = (fixed, always_valid_users_to_be_safe(*given))
    return GuardrailPlan(
        definition, plan.baseline, *(size_of(users, assumptions, maturity_days_of(definition)) for users in sizes)
    )
