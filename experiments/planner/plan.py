"""Planning an experiment: the users and days that an effect needs, and what a running experiment can find now.

Values that the question leaves out come from the history of the metric. The formulas are in `stats.planning`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from fractions import Fraction

from config.errors import Detail, DetailCode, ErrorCode, ValidationFailed
from config.models import Environment
from experiments.metrics.definition import Definition, current_definitions, definitions_of, primary_of
from experiments.models import AnalysisMethod, Experiment
from experiments.planner.forecast import DetectableDay, detectable_by_day
from experiments.planner.history import (
    CurrentTotals,
    History,
    history_of,
    kind_of,
    pace_of,
    read_current_totals,
    reduction_for,
    variant_shares,
)
from experiments.planner.question import (
    Assumptions,
    BaselineKind,
    Question,
    check_effect,
    check_measure,
    check_question,
    missing_mde,
)
from experiments.planner.sizes import (
    MAX_USERS,
    GuardrailPlan,
    Size,
    baseline_of,
    demands_of,
    maturity_days_of,
    plan_guardrails,
    shares_of,
    size_of,
    tuning_size_for,
)
from experiments.stats.planning import (
    Baseline,
    Demands,
    Shares,
    always_valid_users,
    fixed_horizon_users,
    tuned_users,
)

MIN_SHARE = Fraction(1, 10**6)
POWER = 0.8
ALPHA = 0.05
VARIANTS = 2


@dataclass(frozen=True, slots=True)
class Plan:
    """The answer of the planner.

    `with_window` is the size of the always-valid test if the metric had a window; None if it has one. `history` is None
    if nothing is known of the metric. `experiment` is the one in the question, and `guardrails` are its guardrails.
    `detectable` is None unless it has started.
    """

    fixed_horizon: Size
    always_valid: Size
    with_window: Size | None
    experiment: Experiment | None
    assumptions: Assumptions
    history: History | None
    guardrails: Sequence[GuardrailPlan]
    detectable: Sequence[DetectableDay] | None

    @property
    def baseline(self) -> Baseline:
        return baseline_of(self.assumptions)

    @property
    def demands(self) -> Demands:
        return demands_of(self.assumptions)

    @property
    def shares(self) -> Shares:
        return shares_of(self.assumptions)


def plan_for(answer: Plan, analysis: str) -> Size:
    """Return the size for a method of analysis."""
    return answer.fixed_horizon if analysis == AnalysisMethod.FIXED else answer.always_valid


def plan(question: Question, environment: Environment, now: datetime) -> Plan:
    """Answer a question. Raises ValidationFailed `invalid_parameter` with the names of the API's parameters."""
    _refuse(check_question(question))
    experiment = _experiment(question, environment)
    definition = _definition(question, experiment)
    question = replace(question, mde=_effect(question, experiment, definition))
    current = read_current_totals(experiment, now) if experiment else None
    history = history_of(definition, environment, now, current) if definition else None
    pace = pace_of(current, now) if current else None
    assumptions = _tuned(_assume(question, experiment, definition, history, pace))
    return Plan(
        *_sizes(assumptions),
        experiment,
        assumptions,
        history,
        [] if experiment is None else plan_guardrails(experiment, assumptions, environment, now, current),
        None if current is None else _detectable(current, assumptions, now),
    )


def _refuse(details: Iterable[Detail]) -> None:
    if problems := list(details):
        raise ValidationFailed(problems, code=ErrorCode.INVALID_PARAMETER)


def _experiment(question: Question, environment: Environment) -> Experiment | None:
    if question.experiment is None:
        return None
    experiment = Experiment.objects.in_environment(environment).filter(key=question.experiment).first()
    if experiment is None:
        message = (
            f"No experiment in this environment has the key {question.experiment[:100]!r}; send another key, or none."
        )
        _refuse([Detail("experiment", DetailCode.UNKNOWN_REFERENCE, message)])
    return experiment


def _definition(question: Question, experiment: Experiment | None) -> Definition | None:
    """Return the metric of the question, else the first goal of the experiment, else its first metric."""
    if experiment is None:
        return None if question.metric is None else current_definitions([question.metric])[0]
    definitions = {definition.key: definition for definition in definitions_of(experiment)}
    if question.metric is None:
        return primary_of(definitions.values()) or next(iter(definitions.values()), None)
    if question.metric not in definitions:
        message = f"Must be one of the experiment's metrics: {', '.join(definitions) or 'it has none'}."
        _refuse([Detail("metric", DetailCode.UNKNOWN_REFERENCE, message)])
    return definitions[question.metric]


def _effect(question: Question, experiment: Experiment | None, definition: Definition | None) -> float:
    """Return the effect to find: as asked, else the smallest effect of interest in the good direction."""
    if question.mde is not None:
        return question.mde
    minimum = None if experiment is None else experiment.minimum_effect
    if minimum is None:
        _refuse([missing_mde()])
    assert minimum is not None  # noqa: S101 (refused above)
    return -minimum if definition is not None and definition.is_decrease_good and minimum < 1 else minimum


def _assume(
    question: Question,
    experiment: Experiment | None,
    definition: Definition | None,
    history: History | None,
    pace: float | None,
) -> Assumptions:
    """Complete the question from the history, then from defaults. `pace` is the experiment's users a day.

    The tuning size is 0 if it follows from the plan.
    """
    kind = _kind(question, definition)
    baseline, deviation = question.baseline, question.standard_deviation
    if history is not None:
        baseline = history.baseline if baseline is None else baseline
        deviation = history.standard_deviation if deviation is None else deviation
        pace = pace or history.pace_in(experiment)
    _refuse(check_measure(kind, baseline, deviation, question.metric))
    assert baseline is not None  # noqa: S101 (checked)
    assert question.mde is not None  # noqa: S101 (checked)
    _refuse(check_effect(kind, baseline, question.mde))
    return Assumptions(
        metric=None if definition is None else definition.key,
        unit="of users" if kind is BaselineKind.RATE else definition.quantity.currency if definition else "",
        kind=kind,
        baseline=baseline,
        standard_deviation=deviation,
        mde=question.mde,
        power=question.power or POWER,
        alpha=question.alpha or ALPHA,
        shares=_shares(question, experiment or (history.experiment if history else None)),
        is_planned=_is_planned(experiment, definition),
        users_per_day=question.users_per_day or pace,
        tuning_size=question.tuning_size or _registered_tuning_size(experiment),
        variance_reduction=_reduction(question, experiment, history),
        maturity_days=maturity_days_of(definition),
    )


def _is_planned(experiment: Experiment | None, definition: Definition | None) -> bool:
    """Return whether the boundary follows from the plan: for goals with a window, and for a bare question.

    A started experiment has one only if it registered a size.
    """
    is_goal = definition is None or (definition.is_registered_goal and definition.counts_mature_users)
    has_begun = experiment is not None and experiment.started_at is not None
    return is_goal and not (has_begun and planned_size_of(experiment) is None)


def planned_size_of(experiment: Experiment | None) -> int | None:
    """Return the size that the start registered."""
    return None if experiment is None else (experiment.registration or {}).get("plannedSampleSize")


def _registered_tuning_size(experiment: Experiment | None) -> int:
    """Return the tuning size that a start or a person has decided; else 0.

    The planned size of a draft decides nothing yet: another size would come with another tuning.
    """
    if experiment is None:
        return 0
    return experiment.tuning_size if experiment.started_at or experiment.given_tuning_size else 0


def _reduction(question: Question, experiment: Experiment | None, history: History | None) -> float:
    if question.variance_reduction is not None:
        return question.variance_reduction
    return reduction_for(history, experiment) if history else 0.0


def _tuned(assumptions: Assumptions) -> Assumptions:
    """Tune a plan to its own users: those of the control and one treatment together."""
    _check_size(assumptions)
    if assumptions.tuning_size:
        return assumptions
    users = tuned_users(
        *_terms(assumptions), lambda users: tuning_size_for(users, assumptions.shares), shares_of(assumptions)
    )
    return replace(assumptions, tuning_size=tuning_size_for(users, assumptions.shares))


def _shares(question: Question, like: Experiment | None) -> Sequence[Fraction]:
    """Return the share of users of each variant: equal if the question says how many there are, else as in `like`."""
    if like is not None and question.variants is None:
        shares = list(variant_shares(like).values())
        if len(shares) >= VARIANTS:
            return shares
    variants = question.variants or VARIANTS
    return [Fraction(1, variants)] * variants


def _kind(question: Question, definition: Definition | None) -> BaselineKind:
    if definition is None:
        return question.kind or BaselineKind.RATE
    kind = kind_of(definition)
    if question.kind not in (None, kind):
        message = f"Must be {kind} for {definition.key}, or be left out."
        _refuse([Detail("type", DetailCode.INVALID_VALUE, message)])
    return kind


def _terms(assumptions: Assumptions) -> tuple[Baseline, float, Demands]:
    """Return the input of the formulas: the baseline, the difference of the means to find, and the demands."""
    return baseline_of(assumptions), assumptions.baseline * assumptions.mde, demands_of(assumptions)


def _sizes(assumptions: Assumptions) -> tuple[Size, Size, Size | None]:
    baseline, difference, demands = _terms(assumptions)
    shares, days = shares_of(assumptions), assumptions.maturity_days
    fixed, always_valid = (
        size_of(users_of(baseline, difference, demands, shares), assumptions, days)
        for users_of in (fixed_horizon_users, always_valid_users)
    )
    if assumptions.is_planned:
        return fixed, always_valid, None
    planned = always_valid_users(baseline, difference, replace(demands, is_planned=True), shares)
    return fixed, always_valid, size_of(planned, assumptions, days)


def _check_size(assumptions: Assumptions) -> None:
    """Refuse a plan that no experiment could carry out.

    An always-valid test needs less than a hundred times the users of a single look, so this bounds its search too.
    """
    if assumptions.smallest_share < MIN_SHARE:
        message = "Is required, because one variant would get almost no users by its weight; send 2 for equal shares."
        _refuse([Detail("variants", DetailCode.REQUIRED, message)])
    if fixed_horizon_users(*_terms(assumptions), shares_of(assumptions)) > MAX_USERS:
        message = f"Would need more than {MAX_USERS:,} users; send a larger effect."
        _refuse([Detail("mde", DetailCode.OUT_OF_RANGE, message)])


def _detectable(current: CurrentTotals, assumptions: Assumptions, now: datetime) -> list[DetectableDay]:
    baseline, _, demands = _terms(assumptions)
    return detectable_by_day(
        current,
        baseline,
        demands,
        now,
        assumptions.users_per_day,
        maturity_days=assumptions.maturity_days,
        planned_size=planned_size_of(current.experiment),
    )
