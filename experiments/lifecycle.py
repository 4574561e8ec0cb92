"""Every write of an experiment: created and changed as a draft, then started, then stopped; each in the change log."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from config.change_log import Actor, Writing, writing
from config.documents import Document, is_same
from config.errors import DomainError, ErrorCode, ValidationFailed
from config.keys import check_key, is_key
from config.models import Environment
from config.timestamps import format_timestamp
from experiments.design import TUNING_SIZE, check_description, check_metrics, check_tuning_size, check_variants
from experiments.exposures import record_reported_before_start, take_turn
from experiments.metrics.frozen import current_definitions
from experiments.models import Experiment, Status

KIND = "experiment"


def get_experiment(key: str, environment: Environment) -> Experiment:
    """The experiment of this environment with this key. Raises DomainError `experiment_not_found`."""
    found = Experiment.objects.in_environment(environment).filter(key=key).first() if is_key(key) else None
    if found is None:
        message = f"No experiment has the key {key[:100]!r}; list them with GET /v1/experiments."
        raise DomainError(ErrorCode.EXPERIMENT_NOT_FOUND, message)
    return found


def create_experiment(
    *,
    key: str,
    environment: Environment,
    variants: Any,
    actor: Actor,
    at: datetime,
    description: str = "",
    metrics: Any = None,
    tuning_size: int = TUNING_SIZE,
    reason: str = "",
) -> Experiment:
    """Create a draft. Raises ValidationFailed with every field that is to blame, or DomainError `already_exists`."""
    values = {
        "description": description,
        "variants": variants,
        "metrics": [] if metrics is None else metrics,
        "tuning_size": tuning_size,
    }
    if details := [*check_key(key), *_check(values)]:
        raise ValidationFailed(details)
    with writing(actor=actor, at=at, reason=reason) as log:
        if Experiment.objects.in_environment(environment).filter(key=key).exists():
            message = f"An experiment with the key {key} exists already; choose another key."
            raise DomainError(ErrorCode.ALREADY_EXISTS, message)
        experiment = Experiment.objects.create(key=key, environment=environment, created_at=log.at, **values)
        _append(log, experiment, before=None)
    return experiment


def update_experiment(
    *, key: str, environment: Environment, changes: Mapping[str, Any], actor: Actor, at: datetime, reason: str = ""
) -> Experiment:
    """Merge `changes` (description, variants, metrics, tuning_size) into a draft.

    A started experiment only takes a description.
    """
    if details := _check(changes):
        raise ValidationFailed(details)
    with writing(actor=actor, at=at, reason=reason) as log:
        experiment = get_experiment(key, environment)
        new = {name: value for name, value in changes.items() if not is_same(value, getattr(experiment, name))}
        if new.keys() - {"description"}:
            _require_draft(experiment, "changed")
        if new:
            before = document(experiment)
            for name, value in new.items():
                setattr(experiment, name, value)
            experiment.save(update_fields=list(new))
            _append(log, experiment, before)
    return experiment


def delete_experiment(*, key: str, environment: Environment, actor: Actor, at: datetime, reason: str = "") -> None:
    """Delete a draft. What was started has results, and stays."""
    with writing(actor=actor, at=at, reason=reason) as log:
        experiment = get_experiment(key, environment)
        _require_draft(experiment, "deleted")
        before, experiment_id = document(experiment), experiment.pk
        experiment.delete()
        log.append(KIND, object_id=experiment_id, key=key, environment=environment.key, before=before, after=None)


def start_experiment(
    *,
    key: str,
    environment: Environment,
    actor: Actor,
    at: datetime,
    started_at: datetime | None = None,
    reason: str = "",
) -> Experiment:
    """Let a draft assign variants, and fix what its metrics compute, whatever their names will mean later.

    A start in the past, for history that is brought in, is no offer of the API.
    """
    with writing(actor=actor, at=at, reason=reason) as log:
        take_turn(environment)  # what an erasure under way has deleted must not be exposed once more
        experiment = get_experiment(key, environment)
        definitions = [each.document() for each in current_definitions(experiment.metrics)]
        fixed = {"started_at": started_at or log.at, "definitions": definitions}
        _move(log, experiment, Status.DRAFT, Status.RUNNING, **fixed)
        record_reported_before_start(experiment)
        return experiment


def stop_experiment(
    *,
    key: str,
    environment: Environment,
    actor: Actor,
    at: datetime,
    stopped_at: datetime | None = None,
    reason: str = "",
) -> Experiment:
    """End a running experiment: nothing after this moment counts for it."""
    with writing(actor=actor, at=at, reason=reason) as log:
        experiment = get_experiment(key, environment)
        _move(log, experiment, Status.RUNNING, Status.STOPPED, stopped_at=stopped_at or log.at)
        return experiment


def _move(log: Writing, experiment: Experiment, origin: Status, target: Status, **columns: Any) -> None:
    before = document(experiment)
    moved = Experiment.objects.filter(pk=experiment.pk, status=origin).update(status=target, **columns)
    if not moved:
        message = f"The experiment is {experiment.status}; only one that is {origin.value} can become {target.value}."
        raise DomainError(ErrorCode.INVALID_TRANSITION, message)
    experiment.refresh_from_db()
    _append(log, experiment, before)


def document(experiment: Experiment) -> Document:
    """The whole experiment, as the change log keeps it."""
    return {
        "id": str(experiment.pk),
        "key": experiment.key,
        "description": experiment.description,
        "status": str(experiment.status),
        "variants": experiment.variants,
        "metrics": experiment.metrics,
        "definitions": experiment.definitions or None,
        "tuningSampleSize": experiment.tuning_size,
        "startedAt": format_timestamp(experiment.started_at) if experiment.started_at else None,
        "stoppedAt": format_timestamp(experiment.stopped_at) if experiment.stopped_at else None,
    }


def _append(log: Writing, experiment: Experiment, before: Document | None) -> None:
    log.append(
        KIND,
        object_id=experiment.pk,
        key=experiment.key,
        environment=experiment.environment.key,
        before=before,
        after=document(experiment),
    )


def _require_draft(experiment: Experiment, what: str) -> None:
    if experiment.status != Status.DRAFT:
        message = f"The experiment is {experiment.status}; only a draft can be {what}."
        raise DomainError(ErrorCode.EXPERIMENT_LOCKED, message)


def _check(values: Mapping[str, Any]) -> list[Any]:
    checks = {
        "description": check_description,
        "variants": check_variants,
        "metrics": check_metrics,
        "tuning_size": check_tuning_size,
    }
    return [detail for name, check in checks.items() if name in values for detail in check(values[name])]
