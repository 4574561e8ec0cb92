"""The tables of events and their counts.

`events.recording` inserts events and `events.removal` deletes them. No event is ever changed, except that `experiments`
may doubt a report of a client.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db import models
from django.db.models import F, Q

from config.database.commit_order import ArrivalField
from config.database.engines import is_distributed
from config.documents import StoredJSONDecoder
from config.models import Environment
from config.slugs import KEY_LENGTH, NAME_LENGTH
from events.expressions import NamesExperiment

EXPERIMENT_LENGTH = VARIANT_LENGTH = KEY_LENGTH + 1
"""One more than the length of any key or id. A longer reference is cut to this, and still matches nothing."""


def unique_order() -> tuple[str, ...]:
    """Return the columns that order pages of events, oldest first. No two events share them: on Citus, users may share
    an id.
    """
    return ("timestamp", "id", "user_id") if is_distributed() else ("timestamp", "id")


def newest_first() -> tuple[str, ...]:
    return tuple(f"-{column}" for column in unique_order())


class EventQuerySet(models.QuerySet["Event"]):
    def counted_from(self, start: Any) -> EventQuerySet:
        """Filter to events at or after a time. An event with a timestamp after its receipt counts at its receipt."""
        return self.filter(timestamp__gte=start, received_at__gte=start)

    def counted_until(self, end: datetime) -> EventQuerySet:
        """Filter to events at or before a time, counted the same way as in `counted_from`."""
        return self.filter(Q(timestamp__lte=end) | Q(received_at__lte=end))

    def referring_to(self, *references: str) -> EventQuerySet:
        """Filter to events whose `experimentId` is one of these. The empty text means events without one."""
        events = self.filter(experiment__in=references)
        return events if "" in references else events.filter(NamesExperiment())


class Event(models.Model):
    """One action of one user."""

    id = models.UUIDField(primary_key=True)
    environment = models.ForeignKey(Environment, on_delete=models.PROTECT, related_name="events", db_index=False)
    user_id = models.CharField(max_length=NAME_LENGTH)
    name = models.CharField(max_length=NAME_LENGTH)
    timestamp = models.DateTimeField()
    received_at = models.DateTimeField()
    experiment = models.CharField(max_length=EXPERIMENT_LENGTH, blank=True, default="")
    variant = models.CharField(max_length=VARIANT_LENGTH, blank=True, default="")
    properties: models.JSONField[dict[str, Any], dict[str, Any]] = models.JSONField(
        decoder=StoredJSONDecoder, default=dict
    )
    # Whether results doubt a report of a variant that came with a key of scope `client`. None for other events.
    is_doubted = models.BooleanField(null=True, editable=False)
    arrival = ArrivalField()

    objects = EventQuerySet.as_manager()

    class Meta:
        ordering = ("-timestamp", "-id")
        indexes = (
            models.Index(fields=("environment", "timestamp", "id"), name="event_by_time"),
            models.Index(fields=("environment", "user_id", "timestamp", "id"), name="event_by_user"),
            models.Index(fields=("environment", "name", "timestamp", "id"), name="event_by_name"),
            models.Index(
                fields=("environment", "experiment", "timestamp", "id"),
                condition=~Q(experiment=""),
                name="event_by_experiment",
            ),
            models.Index(
                fields=("environment", "experiment", "variant", "timestamp", "id"),
                condition=~Q(experiment="") & ~Q(variant=""),
                name="event_by_variant",
            ),
            models.Index(F("name"), F("user_id"), F("timestamp"), name="event_of_metric"),
            models.Index(fields=("arrival",), name="event_by_arrival"),
            models.Index(
                fields=("environment", "experiment", "timestamp"), condition=Q(is_doubted=True), name="event_doubted"
            ),
        )
        constraints = (models.CheckConstraint(condition=~Q(user_id="") & ~Q(name=""), name="event_has_user_and_name"),)

    def __str__(self) -> str:
        return f"{self.name} by {self.user_id}"


class EventCount(models.Model):
    """The number of events of a name in a quarter of an hour, changed in the transaction that changes the events.

    The number is the sum over all stripes. There are several, so that transactions rarely wait for the same row.
    """

    pk = models.CompositePrimaryKey("environment_id", "name", "quarter", "stripe")
    environment = models.ForeignKey(Environment, on_delete=models.PROTECT, related_name="+", db_index=False)
    name = models.CharField(max_length=NAME_LENGTH)
    # Quarters of an hour since 1970 began in UTC. The clocks of all time zones differ by whole quarters.
    quarter = models.IntegerField()
    stripe = models.SmallIntegerField()
    count = models.BigIntegerField()

    class Meta:
        indexes = (models.Index(fields=("environment", "quarter"), name="event_count_by_time"),)

    def __str__(self) -> str:
        return f"{self.count} times {self.name}"
