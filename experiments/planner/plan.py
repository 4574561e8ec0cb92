"""Planning an experiment: the users and days that an effect needs, and what a running one can find now.

Values that the question leaves out come from the history of the metric. The formulas are in
`experiments.stats.planning`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from math import ceil

from config.errors import Detail, DetailCode, ErrorCode, ValidationFailed
from config.models import Environment
from experiments.metrics.definition import Definition
from experiments.metrics.documents import current_definitions, definitions_of
from experiments.models import Experiment
from experiments.planner.current_totals import CurrentTotals, read_current_totals, variant_shares
from experiments.planner.forecast import DetectableDay, detectable_by_day
from experiments.planner.history import History, history_of, kind_of, pace_of
from experiments.planner.question import Assumptions, Kind, Question, check_effect, check_measure, check_question
from experiments.stats.planning import Baseline, Demands, always_valid_users, fixed_horizon_users
from experiments.stats.types import TUNING_SIZE

MOST_USERS = 10**12
SMALLEST_SHARE = Fraction(1, 10**6)
POWER = 0.8
ALPHA = 0.05
VARIANTS = 2


@dataclass(frozen=True, slots=True)
class Size:
    """The users that are needed until each variant has enough.

    `days` is None where the number of users a day is not known.
    """

    users_per_variant: int
    users: int
    days: int | None


@dataclass(frozen=True, slots=True)
class Plan:
    """The answer of the planner.

    `history` is None if nothing is known of the metric. `detectable` is None unless the question
    names a started experiment.
    """

    fixed_horizon: Size
    always_valid: Size
    assumptions: Assumptions
    history: History | None
    detectable: Sequence[DetectableDay] | None

    @property
    def baseline(self) -> Baseline:
        return _baseline(self.assumptions)

    @property
    def demands(self) -> Demands:
        return _demands(self.assumptions)


def plan(question: Question, environment: Environment, at: datetime) -> Plan:
    """Answer a question.

    Raises ValidationFailed `invalid_parameter`; its details have the names of the API's parameters.
    """
    _refuse(check_question(question))
    experiment = _experiment(question, environment)
    definition = _definition(question, experiment)
    current = read_current_totals(experiment, at) if experiment else None
    history = history_of(definition, environment, at, current) if definition else None
    pace = pace_of(current, at) if current else None
    assumptions = _assume(question, experiment, definition, history, pace)
    return Plan(
        *_sizes(assumptions),
        assumptions,
        history,
        None if current is None else _detectable(current, assumptions, at),
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
    """Return the metric that the question names, or the first one of the experiment."""
    if experiment is None:
        return None if question.metric is None else current_definitions([question.metric])[0]
    definitions = {definition.key: definition for definition in definitions_of(experiment)}
    if question.metric is None:
        return next(iter(definitions.values()), None)
    if question.metric not in definitions:
        message = f"Must be one of the experiment's metrics: {', '.join(definitions) or 'it has none'}."
        _refuse([Detail("metric", DetailCode.UNKNOWN_REFERENCE, message)])
    return definitions[question.metric]


def _assume(
    question: Question,
    experiment: Experiment | None,
    definition: Definition | None,
    history: History | None,
    pace: float | None,
) -> Assumptions:
    """Complete the question from the history, then from defaults. `pace` is the experiment's users a day."""
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
    return Assumptions(
        kind=kind,
        baseline=baseline,
        standard_deviation=deviation,
        mde=question.mde,
        power=question.power or POWER,
        alpha=question.alpha or ALPHA,
        variants=len(shares),
        smallest_share=min(shares),
        users_per_day=question.users_per_day or pace,
        tuning_size=question.tuning_size or (experiment.tuning_size if experiment else TUNING_SIZE),
    )


def _shares(question: Question, like: Experiment | None) -> Sequence[Fraction]:
    """Return the share of users of each variant.

    They are those of the experiment `like`, or equal if the question gives a number of variants.
    """
    if like is not None and question.variants is None:
        shares = list(variant_shares(like).values())
        if len(shares) >= VARIANTS:
            return shares
    variants = question.variants or VARIANTS
    return [Fraction(1, variants)] * variants


def _kind(question: Question, definition: Definition | None) -> Kind:
    if definition is None:
        return question.kind or Kind.RATE
    kind = kind_of(definition)
    if question.kind not in (None, kind):
        message = f"Must be {kind} for {definition.key}, or be left out."
        _refuse([Detail("type", DetailCode.INVALID_VALUE, message)])
    return kind


def _sizes(assumptions: Assumptions) -> tuple[Size, Size]:
    baseline, demands = _baseline(assumptions), _demands(assumptions)
    difference = assumptions.baseline * assumptions.mde
    fixed = fixed_horizon_users(baseline, difference, demands)
    # An always-valid test needs less than a hundred times as many, so this also bounds its search.
    if fixed > MOST_USERS:
        message = f"Would need more than {MOST_USERS:,} users per variant; send a larger effect."
        _refuse([Detail("mde", DetailCode.OUT_OF_RANGE, message)])
    if assumptions.smallest_share < SMALLEST_SHARE:
        message = "Is required, because one variant would get almost no users by its weight; send 2 for equal shares."
        _refuse([Detail("variants", DetailCode.REQUIRED, message)])
    return _size(fixed, assumptions), _size(always_valid_users(baseline, difference, demands), assumptions)


def _size(users_per_variant: int, assumptions: Assumptions) -> Size:
    users = ceil(users_per_variant / assumptions.smallest_share)
    days = ceil(users / assumptions.users_per_day) if assumptions.users_per_day else None
    return Size(users_per_variant, users, days)


def _baseline(assumptions: Assumptions) -> Baseline:
    return Baseline(assumptions.baseline, assumptions.standard_deviation)


def _demands(assumptions: Assumptions) -> Demands:
    return Demands(
        alpha=assumptions.alpha,
        power=assumptions.power,
        treatments=assumptions.variants - 1,
        tuning_size=assumptions.tuning_size,
    )


def _detectable(current: CurrentTotals, assumptions: Assumptions, at: datetime) -> list[DetectableDay]:
    baseline, demands = _baseline(assumptions), _demands(assumptions)
    return detectable_by_day(current, baseline, demands, at, assumptions.users_per_day)
