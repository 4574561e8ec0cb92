"""The tables computed from events: totals of users, sums of variants, and how far both are up to date."""

from __future__ import annotations

from typing import Any

from django.db import models

from config.documents import StoredJSONDecoder
from config.slugs import KEY_LENGTH, NAME_LENGTH
from experiments.models.experiment import Experiment
from experiments.models.fields import ExactField, FiguresField


class AggregateState(models.Model):
    """How far the totals of an experiment follow its events and exposures.

    Every change of the totals locks this row.
    """

    experiment = models.OneToOneField(
        Experiment, on_delete=models.CASCADE, primary_key=True, related_name="aggregate_state"
    )
    mark = models.TextField(blank=True, default="")
    """The position in the commit order (see `config.database.commit_order`) that the totals have reached.

    It is empty before the first time, and after a change that requires computing everything again.
    """
    stopped_at = models.DateTimeField(null=True, default=None)
    """The stop of the experiment that the totals are computed for."""
    caps: models.JSONField[dict[str, float], dict[str, float]] = models.JSONField(
        decoder=StoredJSONDecoder, default=dict
    )
    """The value of each cap, fixed or from a percentile, as the sums use it, by the index of the metric."""
    kept: models.JSONField[dict[str, Any] | None, dict[str, Any] | None] = models.JSONField(
        decoder=StoredJSONDecoder, null=True, default=None
    )
    """The parts of the results that are not sums, stored when the results freeze.

    They are needed once the events are gone (see `experiments.results.frozen`).
    """
    folded_at = models.DateTimeField(null=True, default=None)

    class Meta:
        db_table = "experiments_fold"

    def __str__(self) -> str:
        return f"Aggregate state of {self.experiment_id}"


class UserTotal(models.Model):
    """The values of an experiment's metrics for one exposed user, with zeros where no event counts.

    Nothing here is capped, because a percentile cap depends on all users.
    """

    pk = models.CompositePrimaryKey("experiment_id", "user_id")
    experiment = models.ForeignKey(
        Experiment, on_delete=models.PROTECT, related_name="totals", db_index=False, db_constraint=False
    )  # no constraint: checking it for millions of rows would take longer than writing them
    user_id = models.CharField(max_length=NAME_LENGTH)
    variant = models.CharField(max_length=KEY_LENGTH)
    phase = models.PositiveSmallIntegerField(default=1, db_default=1)
    exposed_at = models.DateTimeField()
    is_in_several_variants = models.BooleanField()
    figures = FiguresField()
    """The columns of each metric, in the order of the metrics (see `experiments.aggregates.metric_columns`).

    A metric has those of the following columns that apply to it:

    - y: the value, or the numerator of a ratio;
    - d: the denominator of a ratio;
    - x: the value of y before the exposure, for metrics other than ratios;
    - events: the number of events of the metric's name, from the exposure to the stop, in any window;
    - foreign: the number of events within the window that are in another currency.
    """

    def __str__(self) -> str:
        return f"Totals of {self.user_id}"


class VariantSums(models.Model):
    """The sums over the users of one variant who were exposed in one phase on one day.

    The statistics need nothing else. The metric -1 stands for the exposures themselves; its rows have
    `users` and `several`. All other rows sum the capped values of `UserTotal`.
    """

    pk = models.CompositePrimaryKey("experiment_id", "metric", "variant", "phase", "day")
    experiment = models.ForeignKey(
        Experiment, on_delete=models.PROTECT, related_name="sums", db_index=False, db_constraint=False
    )
    metric = models.SmallIntegerField()  # the index among the metrics of the experiment
    variant = models.CharField(max_length=KEY_LENGTH)
    phase = models.PositiveSmallIntegerField(default=1, db_default=1)  # of the exposures
    day = models.DateField()  # of the exposures, in UTC
    users = models.IntegerField()  # exposed users, or users with an event of the name since their exposure
    several = models.IntegerField(default=0)  # users who were seen in several variants
    positive = models.IntegerField(default=0)  # users with y > 0
    measured = models.IntegerField(default=0)  # users with y other than 0, for caps at a percentile of these users
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
