"""Experiments, written by `experiments.lifecycle`, and who was exposed to them, by `experiments.exposures`."""

from __future__ import annotations

import builtins
from datetime import datetime, timedelta
from typing import Any

from django.db import models
from django.db.models import Q
from django.db.models.functions import Cast
from uuid_utils.compat import uuid7

from config.arrivals import ArrivalField
from config.documents import StoredJSONDecoder
from config.keys import KEY_LENGTH, KEY_PATTERN, NAME_LENGTH
from config.models import Environment
from experiments.design import DESCRIPTION_LENGTH, TUNING_SIZE
from experiments.fields import ExactField, FiguresField

REOPENABLE_FOR = timedelta(days=30)
"""How long after its stop an experiment can be opened again; its events are held until then."""


class Status(models.TextChoices):
    """An experiment goes through these once, in this order."""

    DRAFT = "draft", "Draft"
    RUNNING = "running", "Running"
    STOPPED = "stopped", "Stopped"


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
        return self.started().filter(Q(frozen_at=None) | Q(fold__kept__isnull=True))

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
    percentage = models.FloatField(default=100)
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
    """How users have been assigned since when, the newest last (see `experiments.phases`); empty for a draft."""
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

    @property
    def holdback(self) -> float | None:
        """The percentage of its flag's users who do not see the winner; None where nobody is held back."""
        return (self.decision or {}).get("holdback") or None


class Origin(models.TextChoices):
    """How we know of an exposure."""

    ASSIGNED = "assigned", "Assigned by this service"
    REPORTED = "reported", "Reported by an event"
    IMPORTED = "imported", "Imported by an operator"
    TOLD = "told", "Imported by an operator, and told by this service since"


class Exposure(models.Model):
    """The variant that a user counts for, and since when: the one row of this user in this experiment."""

    pk = models.CompositePrimaryKey("experiment_id", "user_id")
    experiment = models.ForeignKey(Experiment, on_delete=models.PROTECT, related_name="exposures", db_index=False)
    user_id = models.CharField(max_length=NAME_LENGTH)
    variant = models.CharField(max_length=KEY_LENGTH)
    exposed_at = models.DateTimeField()
    origin = models.CharField(max_length=10, choices=Origin.choices)
    is_in_several_variants = models.BooleanField(default=False)
    phase = models.PositiveSmallIntegerField(default=1, db_default=1)
    """The number of the phase by which the user was assigned, or in which the exposure was reported."""
    attributes: models.JSONField[dict[str, Any] | None, dict[str, Any] | None] = models.JSONField(
        decoder=StoredJSONDecoder, null=True, default=None
    )
    """What was known of the user at the exposure, by name: texts, numbers and booleans to break results down by."""
    arrival = ArrivalField()

    class Meta:
        indexes = (models.Index(fields=("arrival",), name="exposure_by_arrival"),)
        constraints = (models.CheckConstraint(condition=Q(origin__in=Origin.values), name="exposure_origin_known"),)

    def __str__(self) -> str:
        return f"{self.user_id} in {self.variant}"


class Fold(models.Model):
    """How far the totals of an experiment follow its events and exposures. Whoever changes totals holds this row."""

    experiment = models.OneToOneField(Experiment, on_delete=models.CASCADE, primary_key=True, related_name="fold")
    mark = models.TextField(blank=True, default="")
    """Up to where in the order of commits (see `config.arrivals`); empty before the first time."""
    stopped_at = models.DateTimeField(null=True, default=None)
    """The stop that the totals reckon with."""
    caps: models.JSONField[dict[str, float], dict[str, float]] = models.JSONField(
        decoder=StoredJSONDecoder, default=dict
    )
    """The value of each cap, fixed or a percentile, by the place of the metric, as it stands in the sums."""
    kept: models.JSONField[dict[str, Any] | None, dict[str, Any] | None] = models.JSONField(
        decoder=StoredJSONDecoder, null=True, default=None
    )
    """What results say beside the sums, for when the events are gone: kept when they freeze (see `results.kept`)."""
    folded_at = models.DateTimeField(null=True, default=None)

    def __str__(self) -> str:
        return f"Fold of {self.experiment_id}"


class UserTotal(models.Model):
    """What the metrics of an experiment make of one exposed user, who counts with zeros where no event matters.

    Nothing here is capped: where a cap lies may depend on all users.
    """

    pk = models.CompositePrimaryKey("experiment_id", "user_id")
    experiment = models.ForeignKey(
        Experiment, on_delete=models.PROTECT, related_name="totals", db_index=False, db_constraint=False
    )  # checked for each of millions of rows, a constraint would take longer than writing them
    user_id = models.CharField(max_length=NAME_LENGTH)
    variant = models.CharField(max_length=KEY_LENGTH)
    phase = models.PositiveSmallIntegerField(default=1, db_default=1)
    exposed_at = models.DateTimeField()
    is_in_several_variants = models.BooleanField()
    figures = FiguresField()
    """One after the other for each metric, in their order, those that it has (see `totals.figures`).

    y: the value, or the numerator of a ratio; d: the denominator of a ratio; x: what y was before the exposure, where
    it is no ratio; events: of the metric's name, from the exposure to the stop, in any window; foreign: of those in the
    window, how many are in another currency.
    """

    def __str__(self) -> str:
        return f"Totals of {self.user_id}"


class VariantSums(models.Model):
    """Sums over the users of one variant who were exposed in one phase on one day: all that statistics need.

    The metric -1 stands for the exposures themselves; its rows have `users` and `several`, all others sum `UserTotal`,
    capped.
    """

    pk = models.CompositePrimaryKey("experiment_id", "metric", "variant", "phase", "day")
    experiment = models.ForeignKey(
        Experiment, on_delete=models.PROTECT, related_name="sums", db_index=False, db_constraint=False
    )
    metric = models.SmallIntegerField()  # its place among the metrics of the experiment
    variant = models.CharField(max_length=KEY_LENGTH)
    phase = models.PositiveSmallIntegerField(default=1, db_default=1)  # of the exposures
    day = models.DateField()  # of the exposures, in UTC
    users = models.IntegerField()  # exposed ones, or those with at least one event of the name since their exposure
    several = models.IntegerField(default=0)  # users who were seen in several variants
    positive = models.IntegerField(default=0)  # users with y > 0
    measured = models.IntegerField(default=0)  # users with y other than 0, where the cap is a percentile of these
    y = ExactField(default=0)
    yy = ExactField(default=0)
    d = ExactField(default=0)
    dd = ExactField(default=0)
    yd = ExactField(default=0)
    x = ExactField(default=0)
    xx = ExactField(default=0)
    xy = ExactField(default=0)
    events = models.BigIntegerField(default=0)
    foreign = models.BigIntegerField(default=0)

    def __str__(self) -> str:
        return f"{self.metric} of {self.variant} on {self.day}"


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
