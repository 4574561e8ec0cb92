"""The table of events. `events.recording` writes it, `events.removal` deletes from it, and no row
is ever changed.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db import models
from django.db.models import F, Q

from config.database.commit_order import ArrivalField
from config.documents import StoredJSONDecoder
from config.models import Environment
from config.slugs import KEY_LENGTH, NAME_LENGTH

EXPERIMENT_LENGTH = VARIANT_LENGTH = KEY_LENGTH + 1
"""One more than any key or id has: a longer text is cut to it, and so still names nothing that
exists.
"""


class EventQuerySet(models.QuerySet["Event"]):
    def counted_from(self, moment: Any) -> EventQuerySet:
        """Events at or after a moment. One whose timestamp lies after its receipt counts as its
        receipt.
        """
        return self.filter(timestamp__gte=moment, received_at__gte=moment)

    def counted_until(self, moment: datetime) -> EventQuerySet:
        """Events not after a moment, by the same reckoning."""
        return self.filter(Q(timestamp__lte=moment) | Q(received_at__lte=moment))

    def naming(self, *references: str) -> EventQuerySet:
        """Events whose `experimentId` is one of these; the empty text stands for those that name
        none.
        """
        return self.filter(experiment__in=references)


class Event(models.Model):
    """One thing that one user did."""

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
        )
        constraints = (models.CheckConstraint(condition=~Q(user_id="") & ~Q(name=""), name="event_has_user_and_name"),)

    def __str__(self) -> str:
        return f"{self.name} by {self.user_id}"


class EventCount(models.Model):
    """How many events of a name there are in a quarter of an hour: changed with the events, in
    their transaction.

    The number is the sum over all stripes. There are several, so that transactions need not wait
    for each other's row.
    """

    pk = models.CompositePrimaryKey("environment_id", "name", "quarter", "stripe")
    environment = models.ForeignKey(Environment, on_delete=models.PROTECT, related_name="+", db_index=False)
    name = models.CharField(max_length=NAME_LENGTH)
    quarter = models.IntegerField()  # of an hour, since 1970 began in UTC: the step that the clocks of all zones share
    stripe = models.SmallIntegerField()
    count = models.BigIntegerField()

    class Meta:
        indexes = (models.Index(fields=("environment", "quarter"), name="event_count_by_time"),)

    def __str__(self) -> str:
        return f"{self.count} times {self.name}"
