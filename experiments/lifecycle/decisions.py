"""How experiments end: stopped, with or without a winner, and opened again. Each is one transaction, flag included."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from config.change_log.preconditions import check_version
from config.change_log.writing import Actor, Writing, writing
from config.database.locks import lock_environment
from config.documents import Document
from config.errors import Detail, DetailCode, DomainError, ErrorCode, ValidationFailed
from config.models import Environment
from experiments.design.groups import require_free
from experiments.design.segment_refs import check_segments
from experiments.exposures.forced_variants import remove_forced_exposures
from experiments.exposures.recording import record_reported_meanwhile
from experiments.lifecycle import flag_rule
from experiments.lifecycle.new_phase import open_phase_after_stop
from experiments.lifecycle.objections import Objection, objections
from experiments.lifecycle.transitions import append, move, transit
from experiments.models import REOPENABLE_FOR, AggregateState, Experiment, Status
from experiments.models.documents import get_experiment
from experiments.models.locks import lock_aggregates
from experiments.results.computing import analyse_experiment
from experiments.results.frozen import refresh_for_the_last_time
from experiments.results.types import MetricFigures, Results
from experiments.stats.types import Estimate
from flags.engine.shapes import check_percentage

MOST_HELD_BACK = 50
"""Percent: with more, the winner would not be what most users see."""


def stop_experiment(
    *,
    key: str,
    environment: Environment,
    actor: Actor,
    at: datetime,
    stopped_at: datetime | None = None,
    winner: str | None = None,
    holdback: float | None = None,
    if_match: str | None = None,
    reason: str = "",
) -> Experiment:
    """End a running experiment: nothing after this moment counts for it, and its flag goes by its other rules again.

    With a `winner`, everybody sees that variant from now on, but for `holdback` percent of the flag's users, and the
    results freeze; to keep how they came about takes a while, and is for the periodic task. Where something speaks
    against it a reason is demanded. Raises ValidationFailed, or DomainError `experiment_not_found` or
    `invalid_transition`.
    """
    if winner is None:
        _refuse_holdback_without_winner(holdback)
        with writing(actor=actor, at=at, reason=reason) as log:
            experiment = get_experiment(key, environment)
            check_version(experiment, if_match)
            written = flag_rule.remove_rule(log, experiment) if experiment.status == Status.RUNNING else None
            decision = {"flag": written} if written else None
            ended = stopped_at or log.at
            move(log, experiment, Status.RUNNING, Status.STOPPED, stopped_at=ended, decision=decision)
        return experiment
    _prepare(get_experiment(key, environment), at)
    with writing(actor=actor, at=at, reason=reason) as log:
        experiment = get_experiment(key, environment)
        check_version(experiment, if_match)
        _check_decision(experiment, winner, holdback)
        _stop_with_winner(log, experiment, winner, holdback or 0, stopped_at or log.at)
    return experiment


def reopen_experiment(
    *,
    key: str,
    environment: Environment,
    actor: Actor,
    at: datetime,
    if_match: str | None = None,
    reason: str = "",
) -> Experiment:
    """Let a stopped experiment run again as if it had not been stopped.

    Raises DomainError `invalid_transition`, `experiment_locked` where its flag was changed since, or `in_use`.
    """
    with writing(actor=actor, at=at, reason=reason) as log:
        lock_environment(environment)  # as with a start: what is being erased must not be exposed once more
        experiment = get_experiment(key, environment)
        check_version(experiment, if_match)
        stopped_at = _require_reopenable(experiment, log.at)
        lock_aggregates([experiment.pk])
        AggregateState.objects.filter(pk=experiment.pk).update(mark="", stopped_at=None, kept=None)
        written = (experiment.decision or {}).get("flag")
        columns = {"stopped_at": None, "frozen_at": None, "winner": "", "decision": None}
        move(log, experiment, Status.STOPPED, Status.RUNNING, **columns)
        if written:
            flag_rule.restore_rules(log, experiment, written)
        open_phase_after_stop(log, experiment)
        record_reported_meanwhile(experiment, stopped_at)
        remove_forced_exposures(experiment)  # those who became one while the exposures stood still
    return experiment


def is_reopenable(experiment: Experiment, at: datetime) -> bool:
    """Whether it has not been stopped for too long; what else may stand in the way is told by who tries."""
    stopped_at = experiment.stopped_at
    return stopped_at is not None and at <= stopped_at + REOPENABLE_FOR


def _prepare(experiment: Experiment, at: datetime) -> None:
    """Fold and compare before others have to wait: both take long the first time, and hardly any the second."""
    if experiment.status == Status.RUNNING:
        analyse_experiment(experiment, at)


def _check_decision(experiment: Experiment, winner: str, holdback: float | None) -> None:
    details = []
    if winner not in experiment.variant_keys:
        message = f"Must be a variant of the experiment: {', '.join(experiment.variant_keys)}."
        details.append(Detail("winner", DetailCode.UNKNOWN_REFERENCE, message))
    if holdback:
        details += _check_holdback(experiment, winner, holdback)
    if details:
        raise ValidationFailed(details)


def _check_holdback(experiment: Experiment, winner: str, holdback: float) -> Iterator[Detail]:
    if not experiment.flag:
        message = "Must be left out: the experiment drives no flag that could hold users back."
        yield Detail("holdback", DetailCode.INVALID_VALUE, message)
    elif flag_rule.serves_alike(experiment, winner):
        message = f"Must be left out: the flag serves the same for {winner} as for the control, so nobody is held back."
        yield Detail("holdback", DetailCode.INVALID_VALUE, message)
    percentage_details = list(check_percentage(holdback, "holdback"))
    yield from percentage_details
    if not percentage_details and holdback > MOST_HELD_BACK:
        yield Detail("holdback", DetailCode.OUT_OF_RANGE, f"Must be a number from 0 to {MOST_HELD_BACK}.")


def _refuse_holdback_without_winner(holdback: float | None) -> None:
    if holdback is not None:
        message = "Must be left out without a winner: there is nothing to hold back from."
        raise ValidationFailed([Detail("holdback", DetailCode.INVALID_VALUE, message)])


def _stop_with_winner(log: Writing, experiment: Experiment, winner: str, holdback: float, ended: datetime) -> None:
    """Stop, freeze, judge, and have the flag serve the winner. Folds come before the rows of experiments."""
    remove_forced_exposures(experiment)  # whom somebody assigned before they had heard that it is a tester
    held = lock_aggregates([experiment.pk]) if experiment.status == Status.RUNNING else []
    before = transit(experiment, Status.RUNNING, Status.STOPPED, stopped_at=ended, winner=winner)
    for state in held:
        refresh_for_the_last_time(state, log.at)
    experiment.refresh_from_db()
    results = analyse_experiment(experiment, log.at)
    found = objections(results, winner)
    _require_reason(log.reason, winner, found)
    decision = {**_decision(results, winner, holdback, found), "reason": log.reason}
    written = flag_rule.ship(log, experiment, winner, holdback)
    experiment.decision = {**decision, "flag": written} if written else decision
    experiment.save(update_fields=["decision"])
    append(log, experiment, before)


def _require_reason(reason: str, winner: str, found_objections: list[Objection]) -> None:
    if found_objections and not reason.strip():
        causes = "; ".join(objection.message for objection in found_objections)
        message = f"Must say why {winner} is to win all the same: {causes}."
        raise ValidationFailed([Detail("reason", DetailCode.REQUIRED, message)])


def _decision(results: Results, winner: str, holdback: float, found_objections: list[Objection]) -> Document:
    """What was decided, against what, and what was known at that moment."""
    primary_metric = next((metric for metric in results.metrics if metric.is_primary), None)
    verdict = results.verdict
    return {
        "winner": winner,
        "holdback": holdback,
        "overridden": [str(objection.cause) for objection in found_objections],
        "verdict": {"decision": str(verdict.decision), "variant": verdict.variant},
        "primary": _figures(primary_metric) if primary_metric else None,
    }


def _figures(primary: MetricFigures) -> Document:
    return {
        "metric": primary.definition.key,
        "variants": [
            {
                "key": variant.key,
                "users": variant.users,
                "value": variant.estimate.value,
                "lift": _lift(variant.estimate.comparison),
            }
            for variant in primary.variants
        ],
    }


def _lift(comparison: Any) -> Document | None:
    if comparison is None or not isinstance(comparison.lift, Estimate):
        return None
    lift, test = comparison.lift, comparison.lift.always_valid
    return {"estimate": lift.estimate, "lower": test.lower, "upper": test.upper}


def _require_reopenable(experiment: Experiment, at: datetime) -> datetime:
    stopped_at = experiment.stopped_at
    if stopped_at is None:
        message = f"The experiment is {experiment.status}; only one that is stopped can be opened again."
        raise DomainError(ErrorCode.INVALID_TRANSITION, message)
    if not is_reopenable(experiment, at):
        message = f"The experiment was stopped more than {REOPENABLE_FOR.days} days ago; plan a new one."
        raise DomainError(ErrorCode.INVALID_TRANSITION, message)
    require_free(experiment)
    try:
        check_segments(experiment)
    except ValidationFailed as error:  # nobody has sent a field
        causes = " ".join(detail.message for detail in error.details)
        raise DomainError(ErrorCode.EXPERIMENT_LOCKED, f"The experiment cannot run as it did: {causes}") from error
    return stopped_at
