"""Archiving experiments, so that lists no longer show them, and taking them out of the archive."""

from __future__ import annotations

from datetime import datetime

from config.change_log.preconditions import check_version
from config.change_log.writing import Actor, Writing, writing
from config.errors import DomainError, ErrorCode
from config.models import Environment
from experiments.design.groups import require_free
from experiments.lifecycle.transitions import log_change
from experiments.models import Experiment, Status
from experiments.models.documents import document, get_experiment


def archive_experiment(
    *,
    key: str,
    environment: Environment,
    actor: Actor,
    at: datetime,
    if_match: str | None = None,
    reason: str = "",
) -> Experiment:
    """Archive a draft or a stopped experiment. An archived one stays as it is.

    An archived draft gives its part of a group back. Raises DomainError `experiment_not_found`, or
    `invalid_transition` if the experiment is running.
    """
    with writing(actor=actor, at=at, reason=reason) as log:
        experiment = get_experiment(key, environment)
        check_version(experiment, if_match)
        if experiment.status == Status.RUNNING:
            message = "The experiment is running; only a draft or a stopped experiment can be archived."
            raise DomainError(ErrorCode.INVALID_TRANSITION, message)
        if experiment.archived_at is None:
            _set_archived(log, experiment, log.at)
    return experiment


def unarchive_experiment(
    *,
    key: str,
    environment: Environment,
    actor: Actor,
    at: datetime,
    if_match: str | None = None,
    reason: str = "",
) -> Experiment:
    """Take an experiment out of the archive. One that is not archived stays as it is.

    Raises DomainError `experiment_not_found`, or `in_use` if a draft's part of its group is taken.
    """
    with writing(actor=actor, at=at, reason=reason) as log:
        experiment = get_experiment(key, environment)
        check_version(experiment, if_match)
        if experiment.status == Status.RUNNING:
            message = "The experiment is running, so it is not archived."
            raise DomainError(ErrorCode.INVALID_TRANSITION, message)
        if experiment.archived_at is not None:
            if experiment.status == Status.DRAFT:
                require_free(experiment)
            _set_archived(log, experiment, None)
    return experiment


def _set_archived(log: Writing, experiment: Experiment, moment: datetime | None) -> None:
    before = document(experiment)
    experiment.archived_at = moment
    experiment.save(update_fields=["archived_at"])
    log_change(log, experiment, before)
