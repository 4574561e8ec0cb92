"""The tables computed from events: totals of users, sums of variants, and how far both are up to date."""

from __future__ import annotations

from typing import Any

from django.db import models
from django.db.models import Q, Value

from config.documents import StoredJSONDecoder
from config.slugs import KEY_LENGTH, NAME_LENGTH
from experiments.models.experiment import Experiment
from experiments.models.fields import ExactField, FiguresField

_ZERO = Value("0", models.TextField())


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
    bounds: models.JSONField[dict[str, Any] | None, dict[str, Any] | None] = models.JSONField(
        decoder=StoredJSONDecoder, null=True, default=None
    )
    """Bounds below the caps at a percentile (see `experiments.aggregates.near_caps`), by the index of the metric."""
    kept: models.JSONField[dict[str, Any] | None, dict[str, Any] | None] = models.JSONField(
        decoder=StoredJSONDecoder, null=True, default=None
    )
    """The parts of the results that are not sums, stored when the results freeze.

    They are needed once the events are gone (see `experiments.results.frozen`).
    """
    quantiles: models.JSONField[dict[str, Any] | None, dict[str, Any] | None] = models.JSONField(
        decoder=StoredJSONDecoder, null=True, default=None
    )
    """Quantiles, which do not add up over users, by sets of phases and maturity (see `aggregates.quantiles`).

    They are deleted when totals change, and kept as they are once the results are frozen.
    """
    reading: models.JSONField[dict[str, Any] | None, dict[str, Any] | None] = models.JSONField(
        decoder=StoredJSONDecoder, null=True, default=None
    )
    """The one reading of a fixed analysis, once every variant has its planned number of users."""
    series: models.JSONField[dict[str, Any] | None, dict[str, Any] | None] = models.JSONField(
        decoder=StoredJSONDecoder, null=True, default=None
    )
    """How far the daily changes follow the events (see `experiments.aggregates.history`).

    It is None until somebody asks for a series.
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
    is_near_cap = models.BooleanField(default=False, db_default=False)
    """Whether a value is above a bound below its cap; some others are marked, too (see `aggregates.near_caps`)."""
    figures = FiguresField()
    """The columns of each metric, in the order of the metrics (see `experiments.aggregates.metric_columns`).

    A metric has those of the following columns that apply to it:

    - y: the value, or the numerator of a ratio;
    - d: the denominator of a ratio;
    - x: the value of y before the exposure, in the look-back of the experiment; funnels and quantiles have none;
    - e: the value of d before the exposure;
    - events: the number of events that meet the metric's conditions, from the exposure to the stop, in any window;
    - foreign: the number of events within the window that are in another currency;
    - steps: the number of steps of a funnel that the user passed in order.

    For a quantile, y is the number of values in the window; its value comes from events.
    """

    class Meta:
        indexes = (
            models.Index(fields=("experiment", "exposed_at"), name="total_by_exposure"),
            models.Index(fields=("experiment",), condition=Q(is_near_cap=True), name="total_near_cap"),
        )

    def __str__(self) -> str:
        return f"Totals of {self.user_id}"


class SumColumns(models.Model):
    """The columns of exact sums over users."""

    users = models.IntegerField()  # exposed users, or users with an event of the name since their exposure
    several = models.IntegerField(default=0)  # users who were seen in several variants
    positive = models.IntegerField(default=0)  # users with y > 0
    measured = models.IntegerField(default=0)  # users with y other than 0: for amounts, and caps at a percentile
    y = ExactField(default=0)
    yy = ExactField(default=0)
    d = ExactField(default=0)
    dd = ExactField(default=0)
    yd = ExactField(default=0)
    x = ExactField(default=0)
    xx = ExactField(default=0)
    xy = ExactField(default=0)
    e = ExactField(default=0, db_default=_ZERO)  # the denominator of a ratio before the exposure
    ee = ExactField(default=0, db_default=_ZERO)
    xe = ExactField(default=0, db_default=_ZERO)
    ye = ExactField(default=0, db_default=_ZERO)
    dx = ExactField(default=0, db_default=_ZERO)
    de = ExactField(default=0, db_default=_ZERO)
    events = models.BigIntegerField(default=0)
    foreign = models.BigIntegerField(default=0)

    class Meta:
        abstract = True


class VariantSums(SumColumns):
    """The sums over the users of one variant who were exposed in one phase on one day.

    Apart from quantiles, the statistics need nothing else. The metric -1 stands for the exposures themselves; its rows
    have `users` and `several`. Those of the steps of a funnel (see `variant_sums.step_index`) have `users`. All other
    rows sum the capped values of `UserTotal`.
    """

    pk = models.CompositePrimaryKey("experiment_id", "metric", "variant", "phase", "day")
    experiment = models.ForeignKey(
        Experiment, on_delete=models.PROTECT, related_name="sums", db_index=False, db_constraint=False
    )
    metric = models.SmallIntegerField()  # the index among the metrics of the experiment
    variant = models.CharField(max_length=KEY_LENGTH)
    phase = models.PositiveSmallIntegerField(default=1, db_default=1)  # of the exposures
    day = models.DateField()  # of the exposures, in UTC

    def __str__(self) -> str:
        return f"{self.metric} of {self.variant} on {self.day}"


class DailyChange(SumColumns):
    """By how much the sums of one metric changed on one day; added up to a day, they are the sums as of its end.

    The days are those of events and exposures, by their timestamps. Only metrics without a window have rows, because
    the sums of all others follow from `VariantSums` and `UserTotal`.
    """

    pk = models.CompositePrimaryKey("experiment_id", "metric", "variant", "phase", "day")
    experiment = models.ForeignKey(
        Experiment, on_delete=models.PROTECT, related_name="daily_changes", db_index=False, db_constraint=False
    )
    metric = models.SmallIntegerField()
    variant = models.CharField(max_length=KEY_LENGTH)
    phase = models.PositiveSmallIntegerField()
    day = models.DateField()  # in UTC

    def __str__(self) -> str:
        return f"{self.metric} of {self.variant} changed on {self.day}"


class SeriesUser(models.Model):
    """A user whose part of the daily changes is out of date, with the exposure that those changes count.

    `exposed_at` is None for a user whom they do not count yet.
    """

    pk = models.CompositePrimaryKey("experiment_id", "user_id")
    experiment = models.ForeignKey(
        Experiment, on_delete=models.PROTECT, related_name="series_users", db_index=False, db_constraint=False
    )
    user_id = models.CharField(max_length=NAME_LENGTH)
    variant = models.CharField(max_length=KEY_LENGTH, blank=True, default="")
    phase = models.PositiveSmallIntegerField(default=1)
    exposed_at = models.DateTimeField(null=True)
    is_in_several_variants = models.BooleanField(default=False)

    def __str__(self) -> str:
        return f"Outdated series of {self.user_id}"
