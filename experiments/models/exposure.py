"""The table of exposures: one row for each user of an experiment. Only `experiments.exposures` writes it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db import models
from django.db.models import Q

from config.database.commit_order import ArrivalField
from config.documents import StoredJSONDecoder
from config.slugs import KEY_LENGTH, NAME_LENGTH
from events.models import Event
from experiments.models.experiment import Experiment


class Origin(models.TextChoices):
    """The source of an exposure."""

    ASSIGNED = "assigned", "Assigned by this service"
    REPORTED = "reported", "Reported by an event"
    IMPORTED = "imported", "Imported by an operator"
    TOLD = "told", "Imported by an operator, and told by this service since"


class Join(models.ForeignObject):  # type: ignore[type-arg]  # not generic at run time
    """Joins rows with equal values in some columns. It exists in queries only: there is no column and no constraint."""

    requires_unique_target = False

    def __init__(self, to: type[models.Model], *columns: str) -> None:
        super().__init__(to, models.DO_NOTHING, from_fields=columns, to_fields=columns, null=True, related_name="+")

    def deconstruct(self) -> Any:
        name, path, _, _ = super().deconstruct()
        return name, path, (self.remote_field.model, *self.from_fields), {}

    def contribute_to_class(self, cls: type[models.Model], name: str, private_only: bool = False, **_: Any) -> None:
        super().contribute_to_class(cls, name, private_only=True)  # or it would be a column in migrations


class ExposureQuerySet(models.QuerySet["Exposure"]):
    def in_several_variants(self, until: datetime | None) -> ExposureQuerySet:
        """Filter users who had seen several variants by this time, or by now."""
        users = self.filter(is_in_several_variants=True)
        return users if until is None else users.exclude(in_several_since__gt=until)


class Exposure(models.Model):
    """The variant that a user counts for, and since when. A user has one row in each experiment."""

    pk = models.CompositePrimaryKey("experiment_id", "user_id")
    experiment = models.ForeignKey(Experiment, on_delete=models.PROTECT, related_name="exposures", db_index=False)
    user_id = models.CharField(max_length=NAME_LENGTH)
    variant = models.CharField(max_length=KEY_LENGTH)
    exposed_at = models.DateTimeField()
    origin = models.CharField(max_length=10, choices=Origin.choices)
    is_in_several_variants = models.BooleanField(default=False)
    in_several_since = models.DateTimeField(null=True, default=None)
    """The earliest moment at which the user saw another variant, so that what came after a stop can be left out.

    None where that is not known: then it always counts.
    """
    phase = models.PositiveSmallIntegerField(default=1, db_default=1)
    """The number of the phase by which the user was assigned, or in which the exposure was reported."""
    attributes: models.JSONField[dict[str, Any] | None, dict[str, Any] | None] = models.JSONField(
        decoder=StoredJSONDecoder, null=True, default=None
    )
    """The user's attributes at the exposure: strings, numbers and booleans, for breakdowns of results."""
    arrival = ArrivalField()
    happened = Join(Event, "user_id")
    """The events of the user, in queries alone: a row for each event."""

    objects = ExposureQuerySet.as_manager()

    class Meta:
        indexes = (
            models.Index(fields=("arrival",), name="exposure_by_arrival"),
            # Without it, finding out that no user has attributes takes a scan of all exposures.
            models.Index(
                fields=("experiment",), condition=Q(attributes__isnull=False), name="exposure_with_attributes"
            ),
        )
        constraints = (models.CheckConstraint(condition=Q(origin__in=Origin.values), name="exposure_origin_known"),)

    def __str__(self) -> str:
        return f"{self.user_id} in {self.variant}"
