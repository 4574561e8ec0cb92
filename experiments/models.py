"""Experiments, written by `experiments.lifecycle`, and who was exposed to them, by `experiments.exposures`."""

from __future__ import annotations

from typing import Any

from django.db import models
from django.db.models import Q
from uuid_utils.compat import uuid7

from config.documents import StoredJSONDecoder
from config.keys import KEY_LENGTH, KEY_PATTERN, NAME_LENGTH
from config.models import Environment
from experiments.design import DESCRIPTION_LENGTH


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

    def measured_by_events(self) -> ExperimentQuerySet:
        """Those whose results need the events since their start: all that started, for no result is kept."""
        return self.started()


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
    created_at = models.DateTimeField(editable=False)
    started_at = models.DateTimeField(null=True, editable=False)
    stopped_at = models.DateTimeField(null=True, editable=False)

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
        )

    def __str__(self) -> str:
        return self.key

    @property
    def variant_keys(self) -> list[str]:
        return [variant["key"] for variant in self.variants]


class Origin(models.TextChoices):
    """How we know of an exposure."""

    ASSIGNED = "assigned", "Assigned by this service"
    REPORTED = "reported", "Reported by an event"


class Exposure(models.Model):
    """The variant that a user counts for, and since when: the one row of this user in this experiment."""

    pk = models.CompositePrimaryKey("experiment_id", "user_id")
    experiment = models.ForeignKey(Experiment, on_delete=models.PROTECT, related_name="exposures", db_index=False)
    user_id = models.CharField(max_length=NAME_LENGTH)
    variant = models.CharField(max_length=KEY_LENGTH)
    exposed_at = models.DateTimeField()
    origin = models.CharField(max_length=10, choices=Origin.choices)
    is_in_several_variants = models.BooleanField(default=False)

    class Meta:
        constraints = (models.CheckConstraint(condition=Q(origin__in=Origin.values), name="exposure_origin_known"),)

    def __str__(self) -> str:
        return f"{self.user_id} in {self.variant}"
