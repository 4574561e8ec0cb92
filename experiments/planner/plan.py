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
from experiments.models import Experiment
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
    size_of,
    tuning_size_for,
)
from experiments.stats.planning import Baseline, Demands, always_valid_users, fixed_horizon_users, tuned_users

MIN_SHARE = Fraction(1, 10**6)
POWER = 0.8
ALPHA = 0.05
VARIANTS = 2


@dataclass(frozen=True, slots=True)
class Plan:
    """The answer of the planner.

    `history` is None if nothing is known of the metric. `guardrails` are those of the experiment in the question.
    `detectable` is None unless that experiment has started.
    """

    fixed_horizon: Size
    always_valid: Size
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


def plan(question: Question, environment: Environment, now: datetime) -> Plan:
    """Answer a question. Raises ValidationFailed `invalid_parameter` with the names of the API's parameters."""
    _refuse(check_question(question))
    experiment = _experiment(question, environment)
    definition = _definition(question, experiment)
    question = replace(question, mde=_effect(question, experiment, definition))
    current = read_current_totals(experiment, now) if experiment else None
    history = history_of(definition, environment, now, current) if definition else None
    pace = pace_of(current, now) if current else None
    assumptions, shares = _assume(question, experiment, definition, history, pace)
    assumptions = _tuned(assumptions, shares)
    return Plan(
        *_sizes(assumptions),
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
) -> tuple[Assumptions, Sequence[Fraction]]:
    """Complete the question from the history, then from defaults. `pace` is the experiment's users a day.

    Also return the shares of users by variant. The tuning size is 0 if it follows from the plan.
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
    shares = _shares(question, experiment or (history.experiment if history else None))
    assumptions = Assumptions(
        kind=kind,
        baseline=baseline,
        standard_deviation=deviation,
        mde=question.mde,
        power=question.power or POWER,
        alpha=question.alpha or ALPHA,
        variants=len(shares),
        smallest_share=min(shares),
        users_per_day=question.users_per_day or pace,
        tuning_size=question.tuning_size or _registered_tuning_size(experiment),
        variance_reduction=_reduction(question, experiment, history),
        maturity_days=maturity_days_of(definition),
    )
    return assumptions, shares


def _registered_tuning_size(experiment: Experiment | None) -> int:
    """Return the tuning size of an experiment that has decided it; else 0."""
    if experiment is None:
        return 0
    is_decided = experiment.started_at or experiment.planned_size or experiment.given_tuning_size
    return experiment.tuning_size if is_decided else 0


def _reduction(question: Question, experiment: Experiment | None, history: History | None) -> float:
    if question.variance_reduction is not None:
        return question.variance_reduction
    return reduction_for(history, experiment) if history else 0.0


def _tuned(assumptions: Assumptions, shares: Sequence[Fraction]) -> Assumptions:
    """Tune a plan to its own users: those of the control and one treatment together."""
    if assumptions.tuning_size:
        return assumptions
    baseline, demands, difference = _terms(assumptions)
    _check_size(fixed_horizon_users(baseline, difference, demands), assumptions)
    users = tuned_users(baseline, difference, demands, lambda users: tuning_size_for(users, shares))
    return replace(assumptions, tuning_size=tuning_size_for(users, shares))


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


def _terms(assumptions: Assumptions) -> tuple[Baseline, Demands, float]:
    """Return the input of the formulas: the baseline, the demands, and the difference of the means to find."""
    return baseline_of(assumptions), demands_of(assumptions), assumptions.baseline * assumptions.mde


def _sizes(assumptions: Assumptions) -> tuple[Size, Size]:
    baseline, demands, difference = _terms(assumptions)
    fixed = fixed_horizon_users(baseline, difference, demands)
    _check_size(fixed, assumptions)
    always_valid = always_valid_users(baseline, difference, demands)
    days = assumptions.maturity_days
    return size_of(fixed, assumptions, days), size_of(always_valid, assumptions, days)


def _check_size(fixed: int, assumptions: Assumptions) -> None:
    """Refuse a plan that no experiment could carry out.

    An always-valid test needs less than a hundred times the users of a single look, so this bounds its search too.
    """
    if fixed > MAX_USERS:
        message = f"Would need more than {MAX_USERS:,} users per variant; send a larger effect."
        _refuse([Detail("mde", DetailCode.OUT_OF_RANGE, message)])
    if assumptions.smallest_share < MIN_SHARE:
        message = "Is required, because one variant would get almost no users by its weight; send 2 for equal shares."
        _refuse([Detail("variants", DetailCode.REQUIRED, message)])


def _detectable(current: CurrentTotals, assumptions: Assumptions, now: datetime) -> list[DetectableDay]:
    baseline, demands, _ = _terms(assumptions)
    return detectable_by_day(
        current, baseline, demands, now, assumptions.users_per_day, maturity_days=assumptions.maturity_days
    )
