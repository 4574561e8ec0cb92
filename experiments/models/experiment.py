"""The table of experiments, and the calibrations of metrics. Only `experiments.lifecycle` writes experiments."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import models
from django.db.models import Q
from django.db.models.functions import Cast
from uuid_utils.compat import uuid7

from config.documents import StoredJSONDecoder
from config.models import Environment
from config.slugs import DESCRIPTION_LENGTH, KEY_LENGTH, KEY_PATTERN, NAME_LENGTH
from experiments.stats.types import TUNING_SIZE

WHOLE = 100
"""The percentage that takes in all users of the audience."""
REOPENABLE_FOR = timedelta(days=30)
"""How long after its stop an experiment can be opened again; its events are held until then."""


class Status(models.TextChoices):
    """An experiment goes through these once, in this order."""

    DRAFT = "draft", "Draft"
    RUNNING = "running", "Running"
    STOPPED = "stopped", "Stopped"


class ExperimentQuerySet(models.QuerySet["Experiment"]):
    def in_environment(self, environment: Environment) -> ExperimentQuerySet:
        return self.filter(environment=environment)

    def started(self) -> ExperimentQuerySet:
        return self.exclude(status=Status.DRAFT)

    def naming(self, metric: str) -> ExperimentQuerySet:
        """Those whose metrics may hold this key; look into them to be sure. Both databases can search so."""
        return self.alias(named=Cast("metrics", models.TextField())).filter(named__contains=f'"{metric}"')

    def measured_by_events(self) -> ExperimentQuerySet:
        """Those that need the events since their start: until their results freeze, and the way to these is kept."""
        return self.started().filter(Q(frozen_at=None) | Q(aggregate_state__kept__isnull=True))

    def reopenable(self, at: datetime) -> ExperimentQuerySet:
        """Those that have not been stopped for too long to be opened again."""
        return self.filter(stopped_at__gte=at - REOPENABLE_FOR)


class Experiment(models.Model):
    """A question put to users: which of these variants is better, by these metrics?"""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    environment = models.ForeignKey(Environment, on_delete=models.PROTECT, related_name="experiments")
    key = models.CharField(max_length=KEY_LENGTH)
    description = models.CharField(max_length=DESCRIPTION_LENGTH, blank=True, default="")
    status = models.CharField(max_length=10, choices=Status.choices, default=Status.DRAFT, editable=False)
    variants: models.JSONField[list[dict[str, Any]], list[dict[str, Any]]] = models.JSONField(
        decoder=StoredJSONDecoder, default=list
    )
    metrics: models.JSONField[list[str], list[str]] = models.JSONField(
        decoder=StoredJSONDecoder, default=list, blank=True
    )
    definitions: models.JSONField[list[dict[str, Any]], list[dict[str, Any]]] = models.JSONField(
        decoder=StoredJSONDecoder, default=list, blank=True, editable=False
    )
    """What each of the metrics computes, in their order, as it was defined at the start; empty for a draft."""
    percentage = models.FloatField(default=WHOLE)
    """The share of the users in the audience that is taken in."""
    conditions: models.JSONField[list[dict[str, Any]], list[dict[str, Any]]] = models.JSONField(
        decoder=StoredJSONDecoder, default=list, blank=True
    )
    """What users must be like to be taken in, as in the rules of flags."""
    group: models.JSONField[dict[str, Any] | None, dict[str, Any] | None] = models.JSONField(
        decoder=StoredJSONDecoder, null=True, blank=True, default=None
    )
    """The part of a group of mutually exclusive experiments that is this one's: key, from and to, in percent."""
    forced_variants: models.JSONField[dict[str, str], dict[str, str]] = models.JSONField(
        decoder=StoredJSONDecoder, default=dict, blank=True
    )
    """The variants that testers see, by user id; they never count."""
    flag: models.JSONField[dict[str, Any] | None, dict[str, Any] | None] = models.JSONField(
        decoder=StoredJSONDecoder, null=True, blank=True, default=None
    )
    """The flag that it drives while it runs: key, and `serves`, what the flag serves for each variant."""
    planned_size = models.PositiveIntegerField(null=True, blank=True, default=None)
    """How many users, in all variants together, it is meant to have before anybody decides."""
    registration: models.JSONField[dict[str, Any] | None, dict[str, Any] | None] = models.JSONField(
        decoder=StoredJSONDecoder, null=True, default=None, editable=False
    )
    """What was fixed at the start: by what is decided, and when; None for a draft."""
    phases: models.JSONField[list[dict[str, Any]], list[dict[str, Any]]] = models.JSONField(
        decoder=StoredJSONDecoder, default=list, editable=False
    )
    """How users have been assigned since when, the newest last (see `experiments.design.phases`); empty for a draft."""
    winner = models.CharField(max_length=KEY_LENGTH, blank=True, default="", editable=False)
    """The variant that everybody sees since the stop, if that was decided."""
    decision: models.JSONField[dict[str, Any] | None, dict[str, Any] | None] = models.JSONField(
        decoder=StoredJSONDecoder, null=True, default=None, editable=False
    )
    """What the stop went by, for whoever wants to understand it or to take it back."""
    tuning_size = models.PositiveIntegerField(default=TUNING_SIZE)
    """N* of the always-valid intervals: the number of users at which they are narrowest, fixed before anybody looks."""
    created_at = models.DateTimeField(editable=False)
    started_at = models.DateTimeField(null=True, editable=False)
    stopped_at = models.DateTimeField(null=True, editable=False)
    frozen_at = models.DateTimeField(null=True, editable=False)
    """Since when the totals below stand still: what is stored later changes no result."""

    objects = ExperimentQuerySet.as_manager()

    class Meta:
        ordering = ("-created_at", "-id")
        indexes = (models.Index(fields=("environment", "created_at", "id"), name="experiment_by_age"),)
        constraints = (
            models.UniqueConstraint(fields=("environment", "key"), name="experiment_key_once_an_environment"),
            models.CheckConstraint(condition=Q(key__regex=KEY_PATTERN), name="experiment_key_format"),
            models.CheckConstraint(
                condition=Q(status=Status.DRAFT, started_at=None, stopped_at=None)
                | Q(status=Status.RUNNING, started_at__isnull=False, stopped_at=None)
                | Q(status=Status.STOPPED, started_at__isnull=False, stopped_at__isnull=False),
                name="experiment_times_fit_status",
            ),
            models.CheckConstraint(
                condition=Q(winner="") | Q(status=Status.STOPPED), name="experiment_winner_once_stopped"
            ),
        )

    def __str__(self) -> str:
        return self.key

    @property
    def variant_keys(self) -> list[str]:
        return [variant["key"] for variant in self.variants]

    def references(self) -> list[str]:
        """What events may call this experiment: its id, and its key, unless that is the id of another one."""
        if is_uuid(self.key) and Experiment.objects.filter(pk=self.key).exists():
            return [str(self.pk)]
        return [str(self.pk), self.key]

    @property
    def holdback(self) -> float | None:
        """The percentage of its flag's users who do not see the winner; None where nobody is held back."""
        return (self.decision or {}).get("holdback") or None


class Calibration(models.Model):
    """How often the tests of a metric erred when users were split at random; the newest of a metric counts."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    environment = models.ForeignKey(Environment, on_delete=models.PROTECT, related_name="+", db_index=False)
    metric = models.CharField(max_length=NAME_LENGTH)
    definition: models.JSONField[dict[str, Any], dict[str, Any]] = models.JSONField(decoder=StoredJSONDecoder)
    """What the metric computed then. With another one it is not calibrated."""
    at = models.DateTimeField()
    rounds = models.PositiveIntegerField()
    false_positives = models.FloatField()
    """The share of splits in which an always-valid test found a difference: that of the treatment with the most."""
    is_as_promised = models.BooleanField()

    class Meta:
        indexes = (models.Index(fields=("environment", "metric", "at"), name="calibration_by_metric"),)

    def __str__(self) -> str:
        return f"Calibration of {self.metric}"


def is_uuid(text: str) -> bool:
    """Whether a reference to an experiment can be its id."""
    try:
        UUID(text)
    except ValueError:
        return False
    return True
