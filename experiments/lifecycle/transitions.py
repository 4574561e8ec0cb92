"""Moving an experiment from one status to another, and appending it to the change log."""

from __future__ import annotations

from typing import Any

from config.change_log.writing import Writing
from config.documents import Document
from config.errors import DomainError, ErrorCode
from experiments.models import Experiment, Status
from experiments.models.documents import KIND, document


def move(log: Writing, experiment: Experiment, origin: Status, target: Status, **columns: Any) -> None:
    """Take an experiment from one status to another, with other columns. Raises `invalid_transition`."""
    append(log, experiment, transit(experiment, origin, target, **columns))


def transit(experiment: Experiment, origin: Status, target: Status, **columns: Any) -> Document:
    """Do so without logging it yet, and return the document of before."""
    before = document(experiment)
    moved = Experiment.objects.filter(pk=experiment.pk, status=origin).update(status=target, **columns)
    if not moved:
        message = f"The experiment is {experiment.status}; only one that is {origin.value} can become {target.value}."
        raise DomainError(ErrorCode.INVALID_TRANSITION, message)
    experiment.refresh_from_db()
    return before


def append(log: Writing, experiment: Experiment, before: Document | None) -> None:
    """Log an experiment as it is by now."""
    experiment.version = log.next_revision()
    log.append(
        KIND,
        object_id=experiment.pk,
        key=experiment.key,
        environment=experiment.environment.key,
        before=before,
        after=document(experiment),
    )
