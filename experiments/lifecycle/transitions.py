"""Writing one experiment: the transaction, the change of its status, and its entries in the change log."""

from __future__ import annotations

from contextlib import AbstractContextManager
from datetime import datetime
from functools import partial
from typing import Any

from django.db.models import Min

from config.change_log.writing import Actor, Writing, changing
from config.documents import Document
from config.errors import DomainError, ErrorCode
from config.models import Environment
from experiments.models import Experiment, Status
from experiments.models.documents import KIND, experiment_as_json, get_experiment


def writing_experiment(
    key: str, environment: Environment, if_match: str | None, *, actor: Actor, now: datetime, reason: str
) -> AbstractContextManager[tuple[Writing, Experiment]]:
    """Open a transaction that changes an experiment of the version that `If-Match` names.

    Raises DomainError `experiment_not_found` or `precondition_failed`.
    """
    return changing(partial(get_experiment, key, environment), if_match, actor=actor, now=now, reason=reason)


def change_status(log: Writing, experiment: Experiment, origin: Status, target: Status, **columns: Any) -> None:
    """Change the status and other columns and log the change. Raises DomainError `invalid_transition` unless the status
    is `origin`.
    """
    log_change(log, experiment, update_status(experiment, origin, target, **columns))


def require_current(experiment: Experiment) -> None:
    """Refuse to run an archived experiment. Raises DomainError `invalid_transition`."""
    if experiment.archived_at is not None:
        message = f"The experiment {experiment.key} is archived; take it out of the archive first."
        raise DomainError(ErrorCode.INVALID_TRANSITION, message)


def update_status(experiment: Experiment, origin: Status, target: Status, **columns: Any) -> Document:
    """Change the status as `change_status` does, without logging it. Return the experiment as JSON from before."""
    before = experiment_as_json(experiment)
    updated = Experiment.objects.filter(pk=experiment.pk, status=origin).update(status=target, **columns)
    if not updated:
        message = f"The experiment is {experiment.status}; only a {origin.value} experiment can become {target.value}."
        raise DomainError(ErrorCode.INVALID_TRANSITION, message)
    experiment.refresh_from_db()
    return before


def log_change(log: Writing, experiment: Experiment, before: Document | None) -> None:
    """Append the experiment to the change log; `before` is its JSON from before the change."""
    experiment.version = log.next_revision()
    log.append(
        KIND,
        object_id=experiment.pk,
        key=experiment.key,
        environment=experiment.environment.key,
        before=before,
        after=experiment_as_json(experiment),
    )


def needed_history(**_: object) -> datetime | None:
    """Return since when experiments need the change log: the oldest start of an experiment whose results are not
    frozen.
    """
    started: datetime | None = Experiment.objects.filter(frozen_at=None).aggregate(first=Min("started_at"))["first"]
    return started
