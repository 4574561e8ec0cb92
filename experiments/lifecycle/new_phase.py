"""The phases of a running experiment, and the segments that its conditions use.

Only a new phase changes how a running experiment assigns users. Clients open phases, and so does a change of one of
these segments. `models.phases` says what phases are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from config.change_log.writing import Actor, Writing
from config.documents import Document, is_same
from config.errors import Detail, DetailCode, DomainError, ErrorCode, ValidationFailed
from config.models import Change, Environment
from experiments.lifecycle.flag_rule import put_rule
from experiments.lifecycle.transitions import log_change, writing_experiment
from experiments.models import WHOLE, Experiment, Status
from experiments.models.design_checks import check_conditions, check_percentage, check_variants, check_weights_of_flag
from experiments.models.documents import KIND, experiment_as_json
from experiments.models.phases import phase_as_json
from flags.changes.references import CachedLookup, all_segments_named
from flags.changes.references import check_conditions as check_references
from flags.changes.segment_changes import changed_since
from flags.validation.parsing import references

MAX_PHASES = 100
_MAX_NAMED = 10
_DEFAULTS = {"percentage": WHOLE, "conditions": []}
_CHECKS = {"variants": check_variants, "percentage": check_percentage, "conditions": check_conditions}


def open_phase(
    *,
    key: str,
    environment: Environment,
    changes: Mapping[str, Any],
    actor: Actor,
    now: datetime,
    opened_at: datetime | None = None,
    if_match: str | None = None,
    reason: str = "",
) -> Experiment:
    """Assign new users by other weights, percentage or conditions. None resets the latter two.

    The flag of the experiment changes at the same moment. Users who were exposed before keep their variant and count
    for their phase. `opened_at` is a time in the past, for imported experiments. Raises ValidationFailed, or
    DomainError `experiment_not_found`, `invalid_transition` if the experiment is not running, or `experiment_locked` if
    it has the maximum of phases.
    """
    sent = {name: _DEFAULTS.get(name) if value is None else value for name, value in changes.items()}
    details = [detail for name, value in sent.items() for detail in _CHECKS[name](value)]
    if details := [*details, *_check_reason(reason)]:
        raise ValidationFailed(details)
    with writing_experiment(key, environment, if_match, actor=actor, now=now, reason=reason) as (log, experiment):
        _require_running(experiment)
        if details := list(_check_changes(experiment, sent)):
            raise ValidationFailed(details)
        before = experiment_as_json(experiment)
        for name, value in sent.items():
            setattr(experiment, name, value)
        if "conditions" in sent:
            check_segments(experiment)
        _open(log, experiment, before, phase_as_json(experiment, opened_at or log.at, reason), sent)
        put_rule(log, experiment)
    return experiment


def open_phases_of_segments(*, log: Writing, segments: Collection[str], **_: Any) -> None:
    """Open a new phase of every running experiment whose conditions use one of these changed segments.

    Its configuration stays, but other users meet the conditions from now on, so their exposures belong to a new phase.
    Raises DomainError `experiment_locked`.
    """
    segments_read = CachedLookup()
    running = Experiment.objects.filter(status=Status.RUNNING).exclude(conditions=[]).select_related("environment")
    for experiment in running.order_by("environment__key", "key"):
        references = all_segments_named(experiment.conditions, segments_read)
        if changed := [key for key in segments if key in references]:
            _require_room(experiment, changed)
            _open(log, experiment, experiment_as_json(experiment), phase_as_json(experiment, log.at, _why(changed)))


def open_phase_after_stop(log: Writing, experiment: Experiment) -> None:
    """Open a new phase of a reopened experiment if its segments changed while it was stopped."""
    if not experiment.conditions:
        return
    stop_changes = Change.objects.of(KIND, experiment.pk).filter(
        before__status=Status.RUNNING, after__status=Status.STOPPED
    )
    stopped = stop_changes.latest("revision").revision
    if changed := changed_since(all_segments_named(experiment.conditions, CachedLookup()), stopped):
        if len(experiment.phases) >= MAX_PHASES:
            message = (
                f"{_why(changed)[:-1]} after the experiment was stopped, which requires a new phase. "
                f"The experiment already has the maximum of {MAX_PHASES} phases; create a new one."
            )
            raise DomainError(ErrorCode.EXPERIMENT_LOCKED, message)
        _open(log, experiment, experiment_as_json(experiment), phase_as_json(experiment, log.at, _why(changed)))


def _open(log: Writing, experiment: Experiment, before: Document, new: Document, columns: Collection[str] = ()) -> None:
    experiment.phases = [*experiment.phases, new]
    experiment.save(update_fields=[*columns, "phases"])
    log_change(log, experiment, before)


def _why(changed: Sequence[str]) -> str:
    if len(changed) == 1:
        return f"The segment {changed[0]} was changed."
    more = len(changed) - _MAX_NAMED
    return f"The segments {', '.join(changed[:_MAX_NAMED])}{f' and {more} more' if more > 0 else ''} were changed."


def _require_room(experiment: Experiment, changed: Sequence[str]) -> None:
    if len(experiment.phases) >= MAX_PHASES:
        message = (
            f"The experiment {experiment.key} ({experiment.environment.key}) uses the segment {changed[0]} and already "
            f"has the maximum of {MAX_PHASES} phases. Stop it before you change who is in the segment."
        )
        raise DomainError(ErrorCode.EXPERIMENT_LOCKED, message)


def _check_reason(reason: str) -> Iterator[Detail]:
    if not reason.strip():
        message = "Give a reason; people who read the results later will need it."
        yield Detail("reason", DetailCode.REQUIRED, message)


def _require_running(experiment: Experiment) -> None:
    if experiment.status != Status.RUNNING:
        message = f"The experiment is {experiment.status}; only a running experiment can have a new phase."
        raise DomainError(ErrorCode.INVALID_TRANSITION, message)
    if len(experiment.phases) >= MAX_PHASES:
        message = f"The experiment already has the maximum of {MAX_PHASES} phases; stop it and create a new one."
        raise DomainError(ErrorCode.EXPERIMENT_LOCKED, message)


def _check_changes(experiment: Experiment, sent: Mapping[str, Any]) -> Iterator[Detail]:
    """Refuse other variants, and changes that change nothing."""
    variants = sent.get("variants", experiment.variants)
    if experiment.flag:
        yield from check_weights_of_flag(variants)
    if [variant["key"] for variant in variants] != experiment.variant_keys:
        message = f"Must be the variants of the experiment in their order, {', '.join(experiment.variant_keys)}; "
        yield Detail("variants", DetailCode.INVALID_VALUE, f"{message}only their weights may change.")
    elif all(is_same(value, getattr(experiment, name)) for name, value in sent.items()):
        message = "Is required unless percentage or conditions change: a new phase must change the assignment."
        yield Detail("variants", DetailCode.REQUIRED, message)


def check_segments(experiment: Experiment) -> None:
    """Check that the segments in the conditions exist, in a transaction that locks the change log. Raises
    ValidationFailed.
    """
    check_references(experiment.conditions)


def name_segment_users(*, segment: str, **_: Any) -> list[str]:
    """Name the drafts and running experiments whose conditions use a segment, which keep it from being deleted."""
    experiments = Experiment.objects.exclude(status=Status.STOPPED).select_related("environment")
    return [
        f"the experiment {experiment.key} ({experiment.environment.key})"
        for experiment in experiments
        if any(reference.key == segment for reference in references({"conditions": experiment.conditions}))
    ]
