"""The checks of an experiment's plan: can the planned users show what the plan promises?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from django.db.models import Sum

from config.errors import ValidationFailed
from events.counts import storage
from events.models import EventCount
from experiments.lifecycle.findings import Level, Result
from experiments.metrics.definition import Definition, primary_of
from experiments.models import AnalysisMethod, Experiment
from experiments.planner.plan import Plan, plan
from experiments.planner.question import Question
from experiments.planner.sizes import GuardrailPlan, Size

_ANY_EFFECT = 0.01
"""The planner asks for an effect, which does not matter to guardrails."""
_WEEK = 7


def check_minimum_effect(experiment: Experiment, at: datetime) -> Result:
    """Check whether the planned users find the smallest effect of interest."""
    effect, planned = experiment.minimum_effect, experiment.planned_size
    if effect is None:
        message = "No smallest effect of interest is set, so the verdict can never be that there is no difference."
        return Level.WARNING, message
    about = f"The smallest effect of interest is {100 * effect:.4g} %"
    if planned is None:
        return Level.UNKNOWN, f"{about}. Without a planned size, nobody knows whether it would be found."
    answer = _plan(experiment, at)
    if answer is None:
        return Level.UNKNOWN, f"{about}. Past data do not say yet how many users it takes to find it."
    needed = _deciding(experiment, answer).users
    if needed > planned:
        message = f"{about}, which takes about {needed:,} users to find, but {planned:,} are planned"
        return Level.WARNING, f"{message}. Plan for more users, or for a larger effect."
    return Level.OK, f"{about}, which takes about {needed:,} users to find; {planned:,} are planned."


def check_guardrails(experiment: Experiment, definitions: Sequence[Definition], at: datetime) -> Iterator[Result]:
    """Check for each guardrail whether the planned users show it safe within its margin, if there is no difference."""
    guardrails = [each for each in definitions if each.is_guardrail and not each.is_post_hoc]
    if not guardrails:
        yield Level.OK, "No metric is a guardrail."
        return
    # Without past data of the primary metric, any metric that has some will do: guardrails are planned by their own.
    answers = (_plan(experiment, at, key) for key in (None, *(each.key for each in guardrails)))
    answer = next(filter(None, answers), None)
    plans = {each.definition.key: each for each in answer.guardrails} if answer else {}
    for definition in guardrails:
        yield _check_guardrail(experiment, definition.key, plans.get(definition.key))


def _check_guardrail(experiment: Experiment, key: str, of_guardrail: GuardrailPlan | None) -> Result:
    planned = experiment.planned_size
    if planned is None:
        return Level.UNKNOWN, f"{key}: without a planned size, nobody knows whether it can be shown safe."
    if of_guardrail is None or of_guardrail.always_valid is None or of_guardrail.fixed_horizon is None:
        return Level.UNKNOWN, f"{key}: past data do not say yet how many users it takes to show it safe."
    is_fixed = experiment.analysis == AnalysisMethod.FIXED
    needed = (of_guardrail.fixed_horizon if is_fixed else of_guardrail.always_valid).users
    about = f"{key}: showing it safe within its margin takes about {needed:,} users"
    if needed > planned:
        message = f"{about}, but {planned:,} are planned. Plan for more users, or give it a wider margin"
        return Level.WARNING, f"{message}; no variant is recommended before."
    return Level.OK, f"{about}; {planned:,} are planned."


def check_analysis(experiment: Experiment) -> Result:
    """Say how often the results may be read."""
    if experiment.analysis == AnalysisMethod.FIXED:
        message = f"The results decide once, when every variant has its part of the {experiment.planned_size:,} users"
        return Level.OK, f"{message} that are planned."
    return Level.OK, "The results are safe to read every day."


def check_shortest_run(experiment: Experiment) -> Result:
    """Check whether the shortest run covers whole weeks."""
    days = experiment.minimum_days
    if days == 0:
        message = "No shortest run is set, so a variant may be recommended on the first day; 7 days cover a whole week."
        return Level.WARNING, message
    text = f"The experiment runs for at least {days} day{'' if days == 1 else 's'}"
    if days % _WEEK:
        return Level.WARNING, f"{text}, which are no whole weeks: some days of the week count more than others."
    return Level.OK, f"{text}."


def check_lookback(experiment: Experiment, definitions: Sequence[Definition], at: datetime) -> Result:
    """Check whether the look-back has events of the primary metric, without which nothing can be adjusted."""
    days, goal = experiment.lookback_days, primary_of(definitions)
    if days == 0:
        return Level.OK, "The results are not adjusted for what users did before their exposure."
    if goal is None:
        return Level.UNKNOWN, "No metric is a goal, so there is nothing to look back at."
    until = experiment.started_at or at
    rows = EventCount.objects.filter(
        environment=experiment.environment,
        name__in=goal.events,
        quarter__gte=storage.quarter_of(until - timedelta(days=days)),
        quarter__lte=storage.quarter_of(until),
    )
    events = rows.aggregate(events=Sum("count"))["events"] or 0
    span = f"in the {days} day{'' if days == 1 else 's'} of the look-back"
    if not events:
        return Level.WARNING, f"{goal.key}: no events {span}, so there is nothing to adjust the results by."
    counted = f"{int(events):,} event{'' if events == 1 else 's'}"
    return Level.OK, f"{goal.key}: {counted} {span}, which can make the intervals narrower."


def _plan(experiment: Experiment, at: datetime, metric: str | None = None) -> Plan | None:
    """Return the planner's answer for the primary metric or another one; None where its past data do not suffice."""
    effect = None if experiment.minimum_effect and metric is None else _ANY_EFFECT
    try:
        return plan(Question(experiment=experiment.key, mde=effect, metric=metric), experiment.environment, at)
    except ValidationFailed:
        return None


def _deciding(experiment: Experiment, answer: Plan) -> Size:
    return answer.fixed_horizon if experiment.analysis == AnalysisMethod.FIXED else answer.always_valid
