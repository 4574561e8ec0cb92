"""Metrics that a started experiment takes on: marked, so that nobody takes what they show for what was looked for."""

from __future__ import annotations

from dataclasses import replace

from config.documents import Document
from config.errors import DomainError, ErrorCode
from experiments.metrics.frozen import current_definitions, definitions_of
from experiments.models import Experiment
from experiments.totals.folding import hold


def take_on(experiment: Experiment, metrics: list[str]) -> list[Document]:
    """The definitions of a started experiment's metrics and of those that are added after them, as they are now.

    In the caller's transaction; everything is folded afresh then. Raises DomainError `experiment_locked` where others
    than these are to go or to move, or where the results are frozen.
    """
    known = len(experiment.metrics)
    if metrics[:known] != experiment.metrics:
        message = f"The experiment is {experiment.status}; its metrics stay as they are, and others go after them."
        raise DomainError(ErrorCode.EXPERIMENT_LOCKED, message)
    [held] = hold([experiment.pk])  # whoever freezes the results holds it until that is committed
    if not Experiment.objects.filter(pk=experiment.pk, frozen_at=None).exists():
        message = "The results of the experiment are frozen; nothing more can be measured."
        raise DomainError(ErrorCode.EXPERIMENT_LOCKED, message)
    held.mark = ""
    held.save(update_fields=["mark"])
    added = [replace(each, is_post_hoc=True) for each in current_definitions(metrics[known:])]
    return [each.document() for each in (*definitions_of(experiment), *added)]
