"""Undoing a start: the experiment becomes the draft that it was, unless users have been exposed."""

from __future__ import annotations

from config.change_log.writing import Writing
from config.database.locks import Rank, lock_environment, lock_rows
from config.documents import Document
from config.errors import DomainError, ErrorCode
from experiments.lifecycle.flag_rule import remove_rule
from experiments.lifecycle.transitions import change_status
from experiments.models import (
    DailySums,
    DayValue,
    Experiment,
    Exposure,
    ResultState,
    Status,
    StoredOutcome,
    UserValue,
    VariantSums,
)
from experiments.models.locks import lock_results
from experiments.results.forced_exposures import remove_forced_exposures

_COMPUTED = (UserValue, VariantSums, DayValue, DailySums, StoredOutcome)


def undo_start(log: Writing, experiment: Experiment, draft: Document) -> None:
    """Make the draft with this document of a running experiment again, and remove its rule from its flag.

    Raises DomainError `experiment_locked` if users have been exposed. As at a stop, those who record assignments are
    waited for, and others wait: each exposure is either counted here or refused there.
    """
    lock_environment(experiment.environment)
    lock_results([experiment.pk])
    lock_rows(Rank.EXPERIMENTS, Experiment.objects.filter(pk=experiment.pk))
    remove_forced_exposures(experiment)
    _require_unexposed(experiment)
    for model in _COMPUTED:
        model.objects.filter(experiment=experiment).delete()  # of users who were erased, at most
    # The state stays, because a refresh may be waiting for it.
    ResultState(experiment=experiment).save(force_update=True)
    _become_draft(log, experiment, draft)


def try_to_undo_start(log: Writing, experiment: Experiment, draft: Document) -> None:
    """Raise what `undo_start` would raise, without waiting. The caller rolls back what this writes."""
    _require_unexposed(experiment)
    _become_draft(log, experiment, draft)


def _require_unexposed(experiment: Experiment) -> None:
    exposed = Exposure.objects.filter(experiment=experiment).exclude(user_id__in=[*experiment.forced_variants])
    if number := exposed.count():
        users = "1 user has" if number == 1 else f"{number:,} users have"
        message = f"{users} been exposed since, so the start cannot be undone. Stop the experiment instead."
        raise DomainError(ErrorCode.EXPERIMENT_LOCKED, message)


def _become_draft(log: Writing, experiment: Experiment, draft: Document) -> None:
    remove_rule(log, experiment)
    change_status(
        log,
        experiment,
        Status.RUNNING,
        Status.DRAFT,
        started_at=None,
        definitions=draft["definitions"] or [],
        registration=None,
        phases=[],
        tuning_size=draft["tuningSampleSize"],
    )
