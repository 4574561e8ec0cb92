"""Archiving experiments, so that lists no longer show them, and taking them out of the archive."""

from __future__ import annotations

from datetime import datetime

from config.change_log.writing import Actor, Writing
from config.errors import DomainError, ErrorCode
from config.models import Environment
from experiments.lifecycle.groups import require_free
from experiments.lifecycle.transitions import log_change, writing_experiment
from experiments.models import Experiment, Status
from experiments.models.documents import document


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
    with writing_experiment(key, environment, if_match, actor=actor, at=at, reason=reason) as (log, experiment):
        _require_not_running(experiment, "; only a draft or a stopped experiment can be archived")
        if experiment.archived_at is None:
            _save(log, experiment, log.at)
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
    with writing_experiment(key, environment, if_match, actor=actor, at=at, reason=reason) as (log, experiment):
        _require_not_running(experiment, ", so it is not archived")
        if experiment.archived_at is not None:
            set_archived(log, experiment, None)
    return experiment


def set_archived(log: Writing, experiment: Experiment, moment: datetime | None) -> None:
    """Put an experiment back into the archive, as of a moment, or take it out of it, in the transaction of the log.

    Raises DomainError as `archive_experiment` and `unarchive_experiment` do.
    """
    _require_not_running(experiment, "; only a draft or a stopped experiment can be archived")
    if moment is None and experiment.status == Status.DRAFT:
        require_free(experiment)
    _save(log, experiment, moment)


def _require_not_running(experiment: Experiment, consequence: str) -> None:
    if experiment.status == Status.RUNNING:
        raise DomainError(ErrorCode.INVALID_TRANSITION, f"The experiment is running{consequence}.")


def _save(log: Writing, experiment: Experiment, moment: datetime | None) -> None:
    before = document(experiment)
    experiment.archived_at = moment
    experiment.save(update_fields=["archived_at"])
    log_change(log, experiment, before)
