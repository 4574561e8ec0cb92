"""Stopping experiments, with or without a winner, and reopening them, each in one transaction with its flag."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from config.change_log.writing import Actor, Writing
from config.database.locks import Rank, lock_environment, lock_rows
from config.documents import Document
from config.errors import Detail, DetailCode, DomainError, ErrorCode, ValidationFailed
from config.models import Environment
from config.timestamps import format_timestamp, parse_timestamp
from experiments.exposures.recording import record_reported_meanwhile
from experiments.lifecycle import flag_rule
from experiments.lifecycle.affected_users import Affected, affected_by_shipping
from experiments.lifecycle.groups import require_free
from experiments.lifecycle.new_phase import check_segments, open_phase_after_stop
from experiments.lifecycle.objections import Objection, find_objections
from experiments.lifecycle.transitions import (
    change_status,
    log_change,
    require_current,
    update_status,
    writing_experiment,
)
from experiments.metrics.definition import longest_span
from experiments.models import REOPENABLE_FOR, Experiment, ResultState, Status
from experiments.models.documents import get_experiment
from experiments.models.locks import lock_results
from experiments.results.analyse import analyse_experiment
from experiments.results.archive import prepare_freeze, refresh_for_the_last_time
from experiments.results.driven_flag import read_off_since
from experiments.results.forced_exposures import remove_forced_exposures
from experiments.results.refresh import refresh_locked
from experiments.results.types import MetricFigures, Results
from experiments.stats.types import Estimate
from flags.changes.experiment_rules import ShipTo
from flags.validation.shapes import check_percentage

MAX_HOLDBACK = 50
"""The largest holdback, in percent. With a larger one, most users would not see the winner."""


@dataclass(frozen=True, slots=True)
class Shipment:
    """What the flag serves from now on: the winner, to whom, and the percentage of these users who get the control.

    `is_switched_on` says that the flag is off, and is switched on as well.
    """

    winner: str
    holdback: float
    ship_to: ShipTo
    is_switched_on: bool


def stop_experiment(
    *,
    key: str,
    environment: Environment,
    actor: Actor,
    now: datetime,
    stopped_at: datetime | None = None,
    clock: Callable[[], datetime] | None = None,
    winner: str | None = None,
    holdback: float | None = None,
    ship_to: str | None = None,
    enable: bool | None = None,
    keep_counting: bool = False,
    if_match: str | None = None,
    reason: str = "",
) -> Experiment:
    """Stop a running experiment. Later events do not count, and its flag follows its other rules again.

    With a `winner`, the results freeze, and the flag serves that variant to the experiment's audience, or to everyone
    (`ship_to`), except `holdback` percent of these users. Objections to the winner require a reason. If the flag is
    off, `enable` must say whether to switch it on. The periodic task stores the explanations of the results later,
    because that takes a while. Raises ValidationFailed, or DomainError `experiment_not_found` or `invalid_transition`.

    With `keep_counting`, nobody is exposed after the stop either, but events count for the metrics with a window until
    the window of the last user is over. The periodic task freezes the results afterwards.

    The experiment ends at `stopped_at`. By default it ends when `clock` is read, once no variant can be assigned any
    more: then every variant that was answered counts. Without both, it ends at the time of the write.
    """
    if winner is None:
        _refuse_without_winner(holdback=holdback, shipTo=ship_to, enable=enable)
        with writing_experiment(key, environment, if_match, actor=actor, now=now, reason=reason) as (log, experiment):
            off_since = read_off_since(experiment)
            written = flag_rule.remove_rule(log, experiment) if experiment.status == Status.RUNNING else None
            decision = {"flag": written, **_flag_off_since(off_since)} if written else None
            ended = stopped_at or _moment_without_assignments(log, experiment, clock)
            counts_until = _end_of_windows(experiment, ended) if keep_counting else None
            columns = {"stopped_at": ended, "counts_until": counts_until, "decision": decision}
            change_status(log, experiment, Status.RUNNING, Status.STOPPED, **columns)
        return experiment
    experiment = get_experiment(key, environment)
    _compute_results(experiment, now)
    winners = [key for key in experiment.variant_keys if key == winner]
    affected = affected_by_shipping(
        experiment, winners, now, holdback=holdback or 0, ship_to=ship_to, enable=enable
    ).get(winner)
    with writing_experiment(key, environment, if_match, actor=actor, now=now, reason=reason) as (log, experiment):
        _check_decision(experiment, winner, holdback, ship_to, enable)
        shipment = Shipment(winner, holdback or 0, ShipTo(ship_to or ShipTo.AUDIENCE), bool(enable))
        _stop_with_winner(log, experiment, shipment, affected, stopped_at, clock, keep_counting=keep_counting)
    return experiment


def reopen_experiment(
    *,
    key: str,
    environment: Environment,
    actor: Actor,
    now: datetime,
    if_match: str | None = None,
    reason: str = "",
) -> Experiment:
    """Let a stopped experiment run again as if it had not been stopped.

    Raises DomainError `invalid_transition`, `in_use` if its part of the group is taken, or `experiment_locked` if its
    flag was changed after the stop.
    """
    with writing_experiment(key, environment, if_match, actor=actor, now=now, reason=reason) as (log, experiment):
        reopen(log, experiment)
    return experiment


def reopen(log: Writing, experiment: Experiment) -> None:
    """Let a stopped experiment run again in the transaction of the log, as `reopen_experiment` does."""
    # As at a start, a user who is being erased must not be exposed again.
    lock_environment(experiment.environment)
    stopped_at = _require_reopenable(experiment, log.at)
    lock_results([experiment.pk])
    ResultState.objects.filter(experiment=experiment).update(watermark="", stopped_at=None, archive=None)
    _run_again(log, experiment)
    record_reported_meanwhile(experiment, stopped_at)
    remove_forced_exposures(experiment)  # of users who became testers while the results were frozen


def try_to_reopen(log: Writing, experiment: Experiment) -> None:
    """Raise what `reopen` would raise. The caller rolls back what this writes. No exposures are read."""
    _require_reopenable(experiment, log.at)
    _run_again(log, experiment)


def stop_again(log: Writing, experiment: Experiment, stopped: Document) -> None:
    """Undo a reopening: stop the experiment without a winner, as of its earlier stop, which `stopped` has as JSON."""
    written = flag_rule.remove_rule(log, experiment)
    decision, counts_until = stopped.get("decision"), stopped.get("countsUntil")
    change_status(
        log,
        experiment,
        Status.RUNNING,
        Status.STOPPED,
        stopped_at=parse_timestamp(stopped["stoppedAt"]),
        counts_until=parse_timestamp(counts_until) if counts_until else None,
        decision={**(decision or {}), "flag": written} if written else decision,
    )


def is_reopenable(experiment: Experiment, now: datetime) -> bool:
    """Return whether the stop is recent enough. `reopen_experiment` checks the rest."""
    stopped_at = experiment.stopped_at
    return stopped_at is not None and now <= stopped_at + REOPENABLE_FOR


def _run_again(log: Writing, experiment: Experiment) -> None:
    """Change the status and the flag of a reopened experiment."""
    written = (experiment.decision or {}).get("flag")
    columns = {"stopped_at": None, "counts_until": None, "frozen_at": None, "winner": "", "decision": None}
    change_status(log, experiment, Status.STOPPED, Status.RUNNING, **columns)
    if written:
        flag_rule.restore_rules(log, experiment, written)
    open_phase_after_stop(log, experiment)


def _compute_results(experiment: Experiment, now: datetime) -> None:
    """Compute the results before the change log is locked.

    The first computation takes long. The second one is short, while other writers wait.
    """
    if experiment.status == Status.RUNNING:
        analyse_experiment(experiment, now)
        prepare_freeze(experiment, now)


def _check_decision(
    experiment: Experiment, winner: str, holdback: float | None, ship_to: str | None, enable: bool | None
) -> None:
    details = []
    if winner not in experiment.variant_keys:
        message = f"Must be a variant of the experiment: {', '.join(experiment.variant_keys)}."
        details.append(Detail("winner", DetailCode.UNKNOWN_REFERENCE, message))
    if holdback:
        details += _check_holdback(experiment, winner, holdback)
    if ship_to is not None:
        details += _check_ship_to(experiment, ship_to)
    details += _check_enable(experiment, enable)
    if details:
        raise ValidationFailed(details)


def _check_ship_to(experiment: Experiment, ship_to: str) -> Iterator[Detail]:
    if ship_to not in [*ShipTo]:
        yield Detail("shipTo", DetailCode.INVALID_VALUE, f"Must be one of: {', '.join(ShipTo)}.")
    elif not experiment.flag:
        message = "Must be left out: the experiment drives no flag, so nothing is shipped by rules."
        yield Detail("shipTo", DetailCode.INVALID_VALUE, message)


def _check_holdback(experiment: Experiment, winner: str, holdback: float) -> Iterator[Detail]:
    if not experiment.flag:
        message = "Must be left out: the experiment drives no flag, so no users can be held back."
        yield Detail("holdback", DetailCode.INVALID_VALUE, message)
    elif flag_rule.serves_alike(experiment, winner):
        message = f"Must be left out: the flag serves the same value for {winner} and for the control."
        yield Detail("holdback", DetailCode.INVALID_VALUE, message)
    percentage_details = list(check_percentage(holdback, "holdback"))
    yield from percentage_details
    if not percentage_details and holdback > MAX_HOLDBACK:
        yield Detail("holdback", DetailCode.OUT_OF_RANGE, f"Must be a number from 0 to {MAX_HOLDBACK}.")


def _check_enable(experiment: Experiment, enable: bool | None) -> Iterator[Detail]:
    """Require `enable` if the flag is off, and refuse it otherwise."""
    if not experiment.flag:
        if enable is not None:
            message = "Must be left out: the experiment drives no flag that could be switched on."
            yield Detail("enable", DetailCode.INVALID_VALUE, message)
        return
    if experiment.status != Status.RUNNING:  # it is refused for that
        return
    key, is_on = experiment.flag["key"], flag_rule.is_on(experiment)
    if is_on and enable is not None:
        yield Detail("enable", DetailCode.INVALID_VALUE, f"Must be left out: the flag {key} is on already.")
    elif not is_on and enable is None:
        message = (
            f"The flag {key} is off. Send true to switch it on, so that it serves the winner at once, or false to "
            "leave it off, so that it serves nobody the winner until it is switched on."
        )
        yield Detail("enable", DetailCode.REQUIRED, message)


def _refuse_without_winner(**values: object) -> None:
    message = "Must be left out without a winner."
    sent = [field for field, value in values.items() if value is not None]
    if sent:
        raise ValidationFailed([Detail(field, DetailCode.INVALID_VALUE, message) for field in sent])


def _end_of_windows(experiment: Experiment, stopped_at: datetime) -> datetime:
    """Return when the last window is over of users who are exposed by the stop.

    Raises ValidationFailed if no metric has a window.
    """
    span = longest_span(experiment)
    if span is None and experiment.status == Status.RUNNING:  # others are refused for their status
        message = "Must be left out: no metric of the experiment has a window that could be open."
        raise ValidationFailed([Detail("keepCounting", DetailCode.INVALID_VALUE, message)])
    return stopped_at + (span or timedelta(0))


def _moment_without_assignments(log: Writing, experiment: Experiment, clock: Callable[[], datetime] | None) -> datetime:
    """Wait for transactions that record assignments, make later ones wait, and return the time."""
    lock_rows(Rank.EXPERIMENTS, Experiment.objects.filter(pk=experiment.pk))
    return max(log.at, clock()) if clock else log.at


def _stop_with_winner(
    log: Writing,
    experiment: Experiment,
    shipment: Shipment,
    affected: Affected | None,
    stopped_at: datetime | None,
    clock: Callable[[], datetime] | None,
    *,
    keep_counting: bool,
) -> None:
    """Stop the experiment, freeze its results unless windows go on counting, check them, and let the flag serve the
    winner.
    """
    is_running = experiment.status == Status.RUNNING
    # In the order of locks, all before the moment is read.
    if is_running and experiment.forced_variants:
        lock_environment(experiment.environment)
    if is_running:
        lock_results([experiment.pk])
    ended = stopped_at or _moment_without_assignments(log, experiment, clock)
    # Another process may have assigned a tester before it learned of the forced variant.
    remove_forced_exposures(experiment)
    states = lock_results([experiment.pk]) if is_running else []
    counts_until = _end_of_windows(experiment, ended) if keep_counting else None
    columns = {"stopped_at": ended, "counts_until": counts_until, "winner": shipment.winner}
    before = update_status(experiment, Status.RUNNING, Status.STOPPED, **columns)
    for state in states:
        if keep_counting:
            refresh_locked(state, log.at)
        else:
            refresh_for_the_last_time(state, log.at)
    experiment.refresh_from_db()
    results = analyse_experiment(experiment, log.at, is_being_stopped=True)
    removed = flag_rule.removed_rules(experiment, shipment.ship_to)
    objections = find_objections(results, shipment.winner, log.at, removed, affected, keeps_counting=keep_counting)
    _require_reason(log.reason, shipment.winner, objections)
    decision = {**_decision(results, shipment, objections), "reason": log.reason}
    written = flag_rule.ship(
        log,
        experiment,
        shipment.winner,
        shipment.holdback,
        shipment.ship_to,
        is_switched_on=shipment.is_switched_on,
    )
    experiment.decision = {**decision, "flag": written} if written else decision
    experiment.save(update_fields=["decision"])
    log_change(log, experiment, before)


def _require_reason(reason: str, winner: str, objections: list[Objection]) -> None:
    if objections and not reason.strip():
        causes = "; ".join(objection.message for objection in objections)
        message = f"Give a reason for shipping {winner}: {causes}."
        raise ValidationFailed([Detail("reason", DetailCode.REQUIRED, message)])


def _decision(results: Results, shipment: Shipment, objections: list[Objection]) -> Document:
    """Return the decision as JSON, with the objections that it overrides, and the results at that time."""
    primary_metric, verdict = results.primary_metric, results.verdict
    return {
        "winner": shipment.winner,
        "holdback": shipment.holdback,
        **({"shipTo": str(shipment.ship_to)} if results.experiment.flag else {}),
        "overridden": list(dict.fromkeys(str(objection.cause) for objection in objections)),
        "verdict": {"decision": str(verdict.decision), "variant": verdict.variant},
        "primary": _figures(primary_metric) if primary_metric else None,
        **_flag_off_since(results.guards.flag_off_since),
    }


def _flag_off_since(off_since: datetime | None) -> Document:
    """Return since when the flag was off at the stop, for the verdict of the stopped experiment."""
    return {"flagOffSince": format_timestamp(off_since)} if off_since else {}


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
    lift, test = comparison.lift, comparison.deciding(comparison.lift)
    return {"estimate": lift.estimate, "lower": test.lower, "upper": test.upper}


def _require_reopenable(experiment: Experiment, now: datetime) -> datetime:
    require_current(experiment)
    stopped_at = experiment.stopped_at
    if stopped_at is None:
        message = f"The experiment is {experiment.status}; only a stopped experiment can be reopened."
        raise DomainError(ErrorCode.INVALID_TRANSITION, message)
    if not is_reopenable(experiment, now):
        message = f"The experiment was stopped more than {REOPENABLE_FOR.days} days ago; create a new one."
        raise DomainError(ErrorCode.INVALID_TRANSITION, message)
    require_free(experiment)
    try:
        check_segments(experiment)
    except ValidationFailed as error:  # the caller sent no field that could be invalid
        causes = " ".join(detail.message for detail in error.details)
        raise DomainError(ErrorCode.EXPERIMENT_LOCKED, f"The experiment cannot be reopened: {causes}") from error
    return stopped_at
