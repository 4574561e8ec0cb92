"""The tables of experiments, of comments on them, and of calibrations. Only `experiments.lifecycle` writes the first
two.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Cast
from uuid_utils.compat import uuid7

from config.documents import StoredJSONDecoder
from config.models import Environment
from config.slugs import DESCRIPTION_LENGTH, KEY_LENGTH, KEY_PATTERN, NAME_LENGTH
from events.properties import reference_of
from experiments.stats.types import TUNING_SIZE

MINIMUM_DAYS = 7
"""The default of the shortest run, in days: one full week."""
LOOKBACK_DAYS = 28
"""The default number of days before the exposure that CUPED looks back."""
WHOLE = 100
"""The percentage that includes all users of the audience."""
REOPENABLE_FOR = timedelta(days=30)
"""How long a stopped experiment can be reopened. Its events are retained until then."""


class Status(models.TextChoices):
    """The statuses of an experiment, in their order. Reopening and the undo of a start lead back by one."""

    DRAFT = "draft", "Draft"
    RUNNING = "running", "Running"
    STOPPED = "stopped", "Stopped"


class AnalysisMethod(models.TextChoices):
    """How often the results may be read for the decision."""

    SEQUENTIAL = "sequential", "Sequential: safe to read every day"
    FIXED = "fixed", "Fixed: read once, at the planned size"


class ExperimentQuerySet(models.QuerySet["Experiment"]):
    def in_environment(self, environment: Environment) -> ExperimentQuerySet:
        return self.filter(environment=environment)

    def current(self) -> ExperimentQuerySet:
        return self.filter(archived_at=None)

    def archived(self) -> ExperimentQuerySet:
        return self.exclude(archived_at=None)

    def started(self) -> ExperimentQuerySet:
        return self.exclude(status=Status.DRAFT)

    def mentioning(self, metric: str) -> ExperimentQuerySet:
        """Filter by a text search for a metric key, which works on both databases.

        It may find too many, so check `metrics` of each experiment.
        """
        return self.alias(named=Cast("metrics", models.TextField())).filter(named__contains=f'"{metric}"')

    def measured_by_events(self) -> ExperimentQuerySet:
        """Filter started experiments that need their events: those whose results are not frozen and archived."""
        return self.started().filter(Q(frozen_at=None) | Q(result_state__archive__isnull=True))

    def reopenable(self, now: datetime) -> ExperimentQuerySet:
        """Filter stopped experiments that can be reopened now."""
        return self.filter(stopped_at__gte=now - REOPENABLE_FOR)


class Experiment(models.Model):
    """An experiment: variants, the users who see them, and the metrics by which they are compared."""

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
    """The definition of each metric at the start, in the order of `metrics`; empty for a draft."""
    percentage = models.FloatField(default=WHOLE)
    """The percentage of the users in the audience who take part."""
    conditions: models.JSONField[list[dict[str, Any]], list[dict[str, Any]]] = models.JSONField(
        decoder=StoredJSONDecoder, default=list, blank=True
    )
    """The conditions that users must meet to take part, as in the rules of flags."""
    group: models.JSONField[dict[str, Any] | None, dict[str, Any] | None] = models.JSONField(
        decoder=StoredJSONDecoder, null=True, blank=True, default=None
    )
    """This experiment's part of a group of mutually exclusive experiments: key, from and to, in percent."""
    forced_variants: models.JSONField[dict[str, str], dict[str, str]] = models.JSONField(
        decoder=StoredJSONDecoder, default=dict, blank=True
    )
    """The variants that testers see, by user id. Results leave testers out."""
    flag: models.JSONField[dict[str, Any] | None, dict[str, Any] | None] = models.JSONField(
        decoder=StoredJSONDecoder, null=True, blank=True, default=None
    )
    """The flag that the experiment drives while it runs: its `key`, and what it `serves` for each variant.

    `position` says how many of the flag's rules come before the rule of the experiment. Default: 0.
    """
    planned_size = models.PositiveIntegerField(null=True, blank=True, default=None)
    """The number of users, in all variants together, that are planned before a decision."""
    minimum_effect = models.FloatField(null=True, blank=True, default=None)
    """The smallest effect of interest, as a share of the control's value."""
    analysis = models.CharField(
        max_length=10,
        choices=AnalysisMethod.choices,
        default=AnalysisMethod.SEQUENTIAL,
        db_default=AnalysisMethod.SEQUENTIAL,
    )
    minimum_days = models.PositiveSmallIntegerField(default=MINIMUM_DAYS, db_default=MINIMUM_DAYS)
    """The shortest run in days. Before it is over, no variant is recommended."""
    lookback_days = models.PositiveSmallIntegerField(default=LOOKBACK_DAYS, db_default=LOOKBACK_DAYS)
    """How many days before the exposure CUPED looks back. With 0 it is off."""
    owner = models.CharField(max_length=NAME_LENGTH, blank=True, default="", db_default="")
    hypothesis = models.CharField(max_length=DESCRIPTION_LENGTH, blank=True, default="", db_default="")
    registration: models.JSONField[dict[str, Any] | None, dict[str, Any] | None] = models.JSONField(
        decoder=StoredJSONDecoder, null=True, default=None, editable=False
    )
    """The plan as registered at the start, such as the primary metric and the planned size; None for a draft."""
    phases: models.JSONField[list[dict[str, Any]], list[dict[str, Any]]] = models.JSONField(
        decoder=StoredJSONDecoder, default=list, editable=False
    )
    """How users were assigned and since when, the newest phase last (see `models.phases`); empty for a draft."""
    winner = models.CharField(max_length=KEY_LENGTH, blank=True, default="", editable=False)
    """The variant that was shipped at the stop, if any."""
    decision: models.JSONField[dict[str, Any] | None, dict[str, Any] | None] = models.JSONField(
        decoder=StoredJSONDecoder, null=True, default=None, editable=False
    )
    """The record of the stop: what was decided and known, and what a reopening needs."""
    tuning_size = models.PositiveIntegerField(default=TUNING_SIZE)
    """The number of users at which always-valid intervals are narrowest (N*). It is fixed before the start."""
    given_tuning_size = models.PositiveIntegerField(null=True, blank=True, default=None)
    """The tuning size that was sent; None if it follows from the plan."""
    created_at = models.DateTimeField(editable=False)
    started_at = models.DateTimeField(null=True, editable=False)
    stopped_at = models.DateTimeField(null=True, editable=False)
    """When the experiment ended: nobody is exposed later."""
    counts_until = models.DateTimeField(null=True, default=None, editable=False)
    """Until when the open windows of exposed users go on counting after the stop; None if the stop cut them off."""
    archived_at = models.DateTimeField(null=True, blank=True, default=None, editable=False)
    """When a draft or a stopped experiment was archived. Lists leave archived experiments out."""
    frozen_at = models.DateTimeField(null=True, editable=False)
    """When the results were frozen. Later events do not change them."""

    objects = ExperimentQuerySet.as_manager()

    version: int
    """The revision of its newest change, where `get_experiment` has read it, or a writer has just made that change."""

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
            models.CheckConstraint(condition=Q(analysis__in=AnalysisMethod.values), name="experiment_analysis_known"),
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
        """Return the names by which events may refer to this experiment: its id, and its key.

        The key is left out if it is the id of another experiment.
        """
        if is_uuid(self.key) and Experiment.objects.filter(pk=self.key).exists():
            return [str(self.pk)]
        return [str(self.pk), reference_of(self.key)]

    @property
    def counting_ends_at(self) -> datetime | None:
        """Return when the last event counts in a window: at the stop, or once all windows are over; None before."""
        if self.stopped_at is None:
            return None
        return max(self.stopped_at, self.counts_until or self.stopped_at)

    def counted_by(self, now: datetime) -> datetime:
        """Return the moment up to which events count in windows: now, or when the counting ended."""
        ends_at = self.counting_ends_at
        return now if ends_at is None else min(now, ends_at)

    @property
    def etag(self) -> str:
        return f'"{self.version}"'

    @property
    def holdback(self) -> float | None:
        """Return the percentage of the winner's users who still get the control; None without a holdback."""
        return (self.decision or {}).get("holdback") or None

    @property
    def ship_to(self) -> str | None:
        """Return to whom the flag serves the winner: `audience` or `everyone`; None without a winner or a flag."""
        return (self.decision or {}).get("shipTo")


class Calibration(models.Model):
    """How often the tests of a metric erred when users were split at random. Only the newest calibration counts."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    environment = models.ForeignKey(Environment, on_delete=models.PROTECT, related_name="+", db_index=False)
    metric = models.CharField(max_length=NAME_LENGTH)
    definition: models.JSONField[dict[str, Any], dict[str, Any]] = models.JSONField(decoder=StoredJSONDecoder)
    """The metric's definition at that time. With any other definition the metric is not calibrated."""
    at = models.DateTimeField()
    rounds = models.PositiveIntegerField()
    false_positives = models.FloatField()
    """The highest share of splits in which an always-valid test erred, over all tests and treatments."""
    is_as_promised = models.BooleanField()
    outcomes: models.JSONField[dict[str, Any], dict[str, Any]] = models.JSONField(decoder=StoredJSONDecoder)
    """The error rates of lifts, labels and guardrails."""

    class Meta:
        indexes = (models.Index(fields=("environment", "metric", "at"), name="calibration_by_metric"),)

    def __str__(self) -> str:
        return f"Calibration of {self.metric}"


def is_uuid(text: str) -> bool:
    """Return whether the text can be the id of an experiment."""
    try:
        UUID(text)
    except ValueError:
        return False
    return True


COMMENT_LENGTH = 4000


class Comment(models.Model):
    """What somebody wrote about an experiment.

    `author` is the name at that time. `user` is the account, which may delete the comment. It is empty once the account
    is deleted.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    experiment = models.ForeignKey(
        Experiment, on_delete=models.CASCADE, related_name="comments", db_index=False, db_constraint=False
    )
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+", db_constraint=False
    )
    author = models.CharField(max_length=150)
    text = models.CharField(max_length=COMMENT_LENGTH)
    at = models.DateTimeField()

    class Meta:
        ordering = ("at", "id")
        indexes = (models.Index(fields=("experiment", "at", "id"), name="comment_by_time"),)

    def __str__(self) -> str:
        return f"Comment of {self.author}"
