"""The table of metrics: what to compute for a name among the metrics of an experiment."""

from __future__ import annotations

import builtins
from typing import Any

from django.db import models
from django.db.models import Q
from uuid_utils.compat import uuid7

from config.documents import StoredJSONDecoder
from config.slugs import DESCRIPTION_LENGTH, KEY_LENGTH, KEY_PATTERN, NAME_LENGTH


class MetricType(models.TextChoices):
    """What a metric makes of one user's events."""

    CONVERSION = "conversion", "Conversion: did it happen?"
    COUNT = "count", "Count: how often?"
    REVENUE = "revenue", "Revenue: how much money?"
    SUM = "sum", "Sum of a property"
    MEAN = "mean", "Mean of a property"
    RATIO = "ratio", "Ratio of two quantities"
    RETENTION = "retention", "Retention: did it happen on certain days?"


class Direction(models.TextChoices):
    """Which way is good."""

    INCREASE = "increase", "More is better"
    DECREASE = "decrease", "Less is better"


class Role(models.TextChoices):
    """What a metric is there for."""

    GOAL = "goal", "Goal: what the experiment should improve"
    GUARDRAIL = "guardrail", "Guardrail: what must not get worse"


class Metric(models.Model):
    """What to compute for a name among an experiment's metrics. What may stand together is for `metrics.definition`."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    key = models.CharField(max_length=KEY_LENGTH, unique=True)
    description = models.CharField(max_length=DESCRIPTION_LENGTH, blank=True, default="")
    type = models.CharField(max_length=10, choices=MetricType.choices)
    event = models.CharField(max_length=NAME_LENGTH)
    property = models.CharField(max_length=NAME_LENGTH, blank=True, default="")
    currency = models.CharField(max_length=3, blank=True, default="")
    denominator: models.JSONField[dict[str, Any] | None, dict[str, Any] | None] = models.JSONField(
        decoder=StoredJSONDecoder, null=True, blank=True, default=None
    )
    window_hours = models.PositiveIntegerField(null=True, blank=True)
    delay_hours = models.PositiveIntegerField(default=0)
    from_day = models.PositiveIntegerField(null=True, blank=True)
    to_day = models.PositiveIntegerField(null=True, blank=True)
    cap_value = models.FloatField(null=True, blank=True)
    cap_percentile = models.FloatField(null=True, blank=True)
    direction = models.CharField(max_length=10, choices=Direction.choices, default=Direction.INCREASE)
    role = models.CharField(max_length=10, choices=Role.choices, default=Role.GOAL)
    version = models.PositiveIntegerField(default=1, editable=False)
    """Grows when the meaning changes that a started experiment has taken with it."""
    created_at = models.DateTimeField(editable=False)
    updated_at = models.DateTimeField(editable=False)
    revision = models.BigIntegerField(editable=False)
    """Of the change that wrote it last."""

    class Meta:
        ordering = ("key",)
        constraints = (
            models.CheckConstraint(condition=Q(key__regex=KEY_PATTERN), name="metric_key_format"),
            models.CheckConstraint(condition=Q(type__in=MetricType.values), name="metric_type_known"),
            models.CheckConstraint(condition=Q(direction__in=Direction.values), name="metric_direction_known"),
            models.CheckConstraint(condition=Q(role__in=Role.values), name="metric_role_known"),
            models.CheckConstraint(condition=Q(cap_value=None) | Q(cap_percentile=None), name="metric_one_cap"),
        )

    def __str__(self) -> str:
        return self.key

    @builtins.property  # the plain name is that of a field here
    def etag(self) -> str:
        return f'"{self.revision}"'
