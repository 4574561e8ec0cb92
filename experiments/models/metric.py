"""The table of metrics."""

from __future__ import annotations

import builtins
from typing import Any

from django.db import models
from django.db.models import Q, Value
from uuid_utils.compat import uuid7

from config.documents import StoredJSONDecoder
from config.slugs import DESCRIPTION_LENGTH, KEY_LENGTH, KEY_PATTERN, NAME_LENGTH

_EMPTY_LIST = Value([], models.JSONField())


class MetricType(models.TextChoices):
    """How a metric turns one user's events into a value."""

    CONVERSION = "conversion", "Conversion: did it happen?"
    COUNT = "count", "Count: how often?"
    REVENUE = "revenue", "Revenue: how much money?"
    SUM = "sum", "Sum of a property"
    MEAN = "mean", "Mean of a property"
    RATIO = "ratio", "Ratio of two quantities"
    RETENTION = "retention", "Retention: did it happen on certain days?"
    DISTINCT = "distinct", "Distinct: how many different values?"
    FUNNEL = "funnel", "Funnel: were all steps done in order?"
    QUANTILE = "quantile", "Quantile of a property"


class Direction(models.TextChoices):
    """Which direction of change is good."""

    INCREASE = "increase", "More is better"
    DECREASE = "decrease", "Less is better"


class Role(models.TextChoices):
    """The purpose of a metric."""

    GOAL = "goal", "Goal: what the experiment should improve"
    GUARDRAIL = "guardrail", "Guardrail: what must not get worse"


class Metric(models.Model):
    """What an experiment computes for a name among its metrics. `experiments.metrics.checks` checks it."""

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
    where: models.JSONField[list[dict[str, Any]], list[dict[str, Any]]] = models.JSONField(
        decoder=StoredJSONDecoder, blank=True, default=list, db_default=_EMPTY_LIST
    )
    """Conditions on the properties of an event. Only events that meet all of them count."""
    steps: models.JSONField[list[dict[str, Any]], list[dict[str, Any]]] = models.JSONField(
        decoder=StoredJSONDecoder, blank=True, default=list, db_default=_EMPTY_LIST
    )
    """The steps of a funnel in their order, each with an `event` and its `where`."""
    quantile = models.FloatField(null=True, blank=True)
    window_hours = models.PositiveIntegerField(null=True, blank=True)
    delay_hours = models.PositiveIntegerField(default=0)
    from_day = models.PositiveIntegerField(null=True, blank=True)
    to_day = models.PositiveIntegerField(null=True, blank=True)
    cap_value = models.FloatField(null=True, blank=True)
    cap_percentile = models.FloatField(null=True, blank=True)
    direction = models.CharField(max_length=10, choices=Direction.choices, default=Direction.INCREASE)
    role = models.CharField(max_length=10, choices=Role.choices, default=Role.GOAL)
    margin = models.FloatField(null=True, blank=True)
    """How much worse a guardrail may get, as a share of the control's value."""
    margin_absolute = models.FloatField(null=True, blank=True)
    """The same in units of the metric. A guardrail has at most one of the two."""
    version = models.PositiveIntegerField(default=1, editable=False)
    """It grows by one if the definition changes after a started experiment has used it."""
    created_at = models.DateTimeField(editable=False)
    updated_at = models.DateTimeField(editable=False)
    revision = models.BigIntegerField(editable=False)
    """The revision of the newest change of the metric."""

    class Meta:
        ordering = ("key",)
        constraints = (
            models.CheckConstraint(condition=Q(key__regex=KEY_PATTERN), name="metric_key_format"),
            models.CheckConstraint(condition=Q(type__in=MetricType.values), name="metric_type_known"),
            models.CheckConstraint(condition=Q(direction__in=Direction.values), name="metric_direction_known"),
            models.CheckConstraint(condition=Q(role__in=Role.values), name="metric_role_known"),
            models.CheckConstraint(condition=Q(cap_value=None) | Q(cap_percentile=None), name="metric_one_cap"),
            models.CheckConstraint(condition=Q(margin=None) | Q(margin_absolute=None), name="metric_one_margin"),
        )

    def __str__(self) -> str:
        return self.key

    @builtins.property  # here, `property` is the name of a field
    def etag(self) -> str:
        return f'"{self.revision}"'
