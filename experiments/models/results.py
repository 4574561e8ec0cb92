"""The tables that results are read from: values of users, sums over them, and how far both are up to date."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import models
from django.db.models import Q

from config.documents import StoredJSONDecoder
from config.slugs import KEY_LENGTH, NAME_LENGTH
from experiments.models.experiment import Experiment
from experiments.models.exposure import Exposure, Join
from experiments.models.fields import ExactField

EXPOSURE = -1
"""The number that stands in place of a metric's for the exposures themselves."""

if TYPE_CHECKING:
    JSONObject = models.JSONField[dict[str, Any] | None, dict[str, Any] | None]


class ResultState(models.Model):
    """How far the values and sums of an experiment follow its events and exposures.

    Every change of them locks this row.
    """

    experiment = models.OneToOneField(
        Experiment, on_delete=models.CASCADE, primary_key=True, related_name="result_state"
    )
    watermark = models.TextField(blank=True, default="")
    """The position in the order of commits that the values have reached (see `config.database.commit_order`).

    It is empty before the first refresh, and where everything must be computed again.
    """
    stopped_at = models.DateTimeField(null=True, default=None)
    """The stop of the experiment that the values are computed for."""
    refreshed_at = models.DateTimeField(null=True, default=None)
    caps: models.JSONField[dict[str, float], dict[str, float]] = models.JSONField(
        decoder=StoredJSONDecoder, default=dict
    )
    """The value of each cap in the sums, fixed or at a percentile, by the number of the metric."""
    daily_metrics: models.JSONField[list[int], list[int]] = models.JSONField(decoder=StoredJSONDecoder, default=list)
    """The numbers of the metrics of which somebody has asked for a series, and which have values of days."""
    quantiles: JSONObject = models.JSONField(decoder=StoredJSONDecoder, null=True, default=None)
    """Quantiles, which do not add up over users (see `results.quantiles`); deleted when values change."""
    reading: JSONObject = models.JSONField(decoder=StoredJSONDecoder, null=True, default=None)
    """The one reading of a fixed analysis, once every variant has its planned number of users."""
    archive: JSONObject = models.JSONField(decoder=StoredJSONDecoder, null=True, default=None)
    """What results need beside the sums once the events are gone (see `results.archive`)."""

    def __str__(self) -> str:
        return f"Results of {self.experiment_id}"


class UserValue(models.Model):
    """What a metric counts for an exposed user, not capped.

    There is a row for each metric of which an event of the user counts; what is 0 is NULL. Besides, each exposed user
    has a row of EXPOSURE, with the exposure as the sums count it. From these rows, the old contribution of a user is
    subtracted, whatever has changed since.
    """

    pk = models.CompositePrimaryKey("experiment_id", "user_id", "metric")
    # No constraint: to check it for millions of rows would take longer than to write them.
    experiment = models.ForeignKey(
        Experiment, on_delete=models.PROTECT, related_name="values", db_index=False, db_constraint=False
    )
    value = models.FloatField(null=True)
    """The value, or the numerator of a ratio; of a quantile the number of the user's events."""
    denominator = models.FloatField(null=True)
    value_before = models.FloatField(null=True)
    """The same before the exposure, in the look-back of the experiment."""
    denominator_before = models.FloatField(null=True)
    exposed_at = models.DateTimeField(null=True)
    """Of EXPOSURE alone; so is `in_several_variants`."""
    day = models.DateField()
    """The day of the exposure, in UTC."""
    events = models.IntegerField(null=True)
    """The number of events of the metric from the exposure to the stop, in any window."""
    other_currency = models.IntegerField(null=True)
    """The number of amounts within the window that are not added, because they are in another currency."""
    metric = models.SmallIntegerField()
    """The number of the metric, in the order of the experiment, from 0."""
    variant_number = models.SmallIntegerField()
    """The number of the variant, in the order of the experiment, from 0."""
    phase = models.SmallIntegerField()
    steps = models.SmallIntegerField(null=True)
    """The number of steps of a funnel that the user passed in order."""
    in_several_variants = models.BooleanField(null=True)
    is_ranked = models.BooleanField(null=True)
    """True where the metric has a cap at a percentile, else NULL."""
    user_id = models.CharField(max_length=NAME_LENGTH)
    exposure = Join(Exposure, "experiment", "user_id")

    class Meta:
        indexes = (
            models.Index(fields=("experiment", "metric", "day"), name="value_by_day"),
            models.Index(fields=("experiment", "metric", "value"), condition=Q(is_ranked=True), name="value_by_size"),
            models.Index(
                fields=("experiment", "metric", "value_before"),
                condition=Q(is_ranked=True, value_before__isnull=False),
                name="value_before_by_size",
            ),
        )

    def __str__(self) -> str:
        return f"Metric {self.metric} of {self.user_id}"


class DayValue(models.Model):
    """What a metric without a window counted for a user from the end of one day on, until the end of a later one.

    There is a row for each day on which an event of the user began to count, of the metrics of which somebody has asked
    for a series. The last row of a user has no end.
    """

    pk = models.CompositePrimaryKey("experiment_id", "user_id", "metric", "since")
    experiment = models.ForeignKey(
        Experiment, on_delete=models.PROTECT, related_name="day_values", db_index=False, db_constraint=False
    )
    value = models.FloatField(null=True)
    denominator = models.FloatField(null=True)
    value_before = models.FloatField(null=True)
    denominator_before = models.FloatField(null=True)
    since = models.DateField()
    until = models.DateField(null=True)
    events = models.IntegerField(null=True)
    other_currency = models.IntegerField(null=True)
    metric = models.SmallIntegerField()
    variant_number = models.SmallIntegerField()
    phase = models.SmallIntegerField()
    steps = models.SmallIntegerField(null=True)
    is_ranked = models.BooleanField(null=True)
    user_id = models.CharField(max_length=NAME_LENGTH)

    class Meta:
        indexes = (
            models.Index(
                fields=("experiment", "metric", "value"), condition=Q(is_ranked=True), name="day_value_by_size"
            ),
            models.Index(
                fields=("experiment", "metric", "value_before"),
                condition=Q(is_ranked=True, value_before__isnull=False),
                name="day_value_before_by_size",
            ),
        )

    def __str__(self) -> str:
        return f"Metric {self.metric} of {self.user_id} since {self.since}"


class SumColumns(models.Model):
    """Sums over users; those of values, squares and products are exact."""

    users = models.IntegerField(default=0)
    """Exposed users, or users with an event of the metric since their exposure."""
    in_several_variants = models.IntegerField(default=0)
    positive = models.IntegerField(default=0)
    """Users with a value above 0."""
    nonzero = models.IntegerField(default=0)
    """Users with a value other than 0, of metrics that add amounts or have a cap at a percentile."""
    value = ExactField(default=0)
    value_squared = ExactField(default=0)
    denominator = ExactField(default=0)
    denominator_squared = ExactField(default=0)
    value_denominator = ExactField(default=0)
    value_before = ExactField(default=0)
    value_before_squared = ExactField(default=0)
    value_value_before = ExactField(default=0)
    denominator_before = ExactField(default=0)
    denominator_before_squared = ExactField(default=0)
    value_before_denominator_before = ExactField(default=0)
    value_denominator_before = ExactField(default=0)
    denominator_value_before = ExactField(default=0)
    denominator_denominator_before = ExactField(default=0)
    events = models.BigIntegerField(default=0)
    other_currency = models.BigIntegerField(default=0)

    class Meta:
        abstract = True


class VariantSums(SumColumns):
    """The sums over the users of one variant who were exposed in one phase on one day.

    Apart from quantiles, the statistics need nothing else. The rows of EXPOSURE have `users` and `in_several_variants`,
    those of the steps of a funnel (see `results.sums.step_number`) have `users`. All others sum the capped values of
    `UserValue`.
    """

    pk = models.CompositePrimaryKey("experiment_id", "metric", "variant", "phase", "day")
    experiment = models.ForeignKey(
        Experiment, on_delete=models.PROTECT, related_name="sums", db_index=False, db_constraint=False
    )
    metric = models.SmallIntegerField()
    variant = models.CharField(max_length=KEY_LENGTH)
    phase = models.SmallIntegerField()
    day = models.DateField()

    def __str__(self) -> str:
        return f"{self.metric} of {self.variant} on {self.day}"


class DailySums(SumColumns):
    """By how much the sums of a metric without a window changed on one day, from the values of days.

    Added up to a day, they are the sums as of its end. Those of other metrics follow from `VariantSums`.
    """

    pk = models.CompositePrimaryKey("experiment_id", "metric", "variant", "phase", "day")
    experiment = models.ForeignKey(
        Experiment, on_delete=models.PROTECT, related_name="daily_sums", db_index=False, db_constraint=False
    )
    metric = models.SmallIntegerField()
    variant = models.CharField(max_length=KEY_LENGTH)
    phase = models.SmallIntegerField()
    day = models.DateField()

    def __str__(self) -> str:
        return f"{self.metric} of {self.variant} changed on {self.day}"


class StoredOutcome(models.Model):
    """The effects of a stopped experiment, computed at a moment. Only `experiments.results.outcomes` writes it.

    It counts only while the experiment is still stopped as of `stopped_at`. It is final if it was computed after the
    results were frozen. The erasure of a user deletes the rows whose figures it changes.
    """

    experiment = models.OneToOneField(
        Experiment, on_delete=models.PROTECT, primary_key=True, related_name="outcome", db_constraint=False
    )
    stopped_at = models.DateTimeField()
    computed_at = models.DateTimeField()
    is_final = models.BooleanField()
    document: models.JSONField[dict[str, Any], dict[str, Any]] = models.JSONField(decoder=StoredJSONDecoder)

    def __str__(self) -> str:
        return f"Outcome of {self.experiment_id}"
