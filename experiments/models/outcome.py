"""The table of what came of finished experiments, so that lists need not compute results."""

from __future__ import annotations

from typing import Any

from django.db import models

from config.documents import StoredJSONDecoder
from experiments.models.experiment import Experiment


class StoredOutcome(models.Model):
    """The effects of a stopped experiment, computed at a moment. Only `experiments.results.outcomes` writes it.

    It counts only while the experiment is still stopped as of `stopped_at`. It is final if it was computed after the
    results were frozen. The erasure of a user deletes the rows whose figures it changes.
    """

    experiment = models.OneToOneField(
        Experiment, on_delete=models.PROTECT, primary_key=True, related_name="outcome", db_constraint=False
    )
    stopped_at = models.DateTimeField()
    computed_at = models.DateTimeField()
    is_final = models.BooleanField()
    document: models.JSONField[dict[str, Any], dict[str, Any]] = models.JSONField(decoder=StoredJSONDecoder)

    def __str__(self) -> str:
        return f"Outcome of {self.experiment_id}"
