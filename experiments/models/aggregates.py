"""The tables of what is computed from events: totals of users, sums of variants, and how far these are up to date."""

from __future__ import annotations

from typing import Any

from django.db import models

from config.documents import StoredJSONDecoder
from config.slugs import KEY_LENGTH, NAME_LENGTH
from experiments.models.experiment import Experiment
from experiments.models.fields import ExactField, FiguresField


class AggregateState(models.Model):
    """How far the totals of an experiment follow its events and exposures. Lock this row to change the totals."""

    experiment = models.OneToOneField(
        Experiment, on_delete=models.CASCADE, primary_key=True, related_name="aggregate_state"
    )
    mark = models.TextField(blank=True, default="")
    """Up to where in the order of commits (see `config.database.commit_order`); empty before the first time."""
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

    class Meta:
        db_table = "experiments_fold"

    def __str__(self) -> str:
        return f"Aggregate state of {self.experiment_id}"


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
