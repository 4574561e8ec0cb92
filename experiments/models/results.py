"""The tables that results are read from: values of users, sums over them, and how far both are refreshed."""

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
"""The metric number of rows that describe the exposure itself."""

if TYPE_CHECKING:
    JSONObject = models.JSONField[dict[str, Any] | None, dict[str, Any] | None]


class ResultState(models.Model):
    """How far the values and sums of an experiment are refreshed. Whoever changes them locks this row."""

    id = models.AutoField(primary_key=True)
    """Names the experiment in its values, of which there are many, in a quarter of the bytes of a UUID."""
    experiment = models.OneToOneField(Experiment, on_delete=models.CASCADE, related_name="result_state")
    watermark = models.TextField(blank=True, default="")
    """The values include all rows up to here, in the order of commits (see `config.database.commit_order`).

    It is empty before the first refresh, and to have everything computed again.
    """
    stopped_at = models.DateTimeField(null=True, default=None)
    """The end of counting that the values were computed for: the stop, or later if windows went on counting."""
    refreshed_at = models.DateTimeField(null=True, default=None)
    caps: models.JSONField[dict[str, float], dict[str, float]] = models.JSONField(
        decoder=StoredJSONDecoder, default=dict
    )
    """The caps in force, fixed or at a percentile, by metric number."""
    daily_metrics: models.JSONField[list[int], list[int]] = models.JSONField(decoder=StoredJSONDecoder, default=list)
    """The numbers of the metrics that have values of days, because somebody asked for a series."""
    quantiles: JSONObject = models.JSONField(decoder=StoredJSONDecoder, null=True, default=None)
    """Stored quantiles, which do not add up over users (see `results.quantiles`). A change of values deletes them."""
    reading: JSONObject = models.JSONField(decoder=StoredJSONDecoder, null=True, default=None)
    """The one reading of a fixed analysis, taken once every variant has its planned number of users."""
    verdicts: models.JSONField[list[dict[str, Any]] | None, list[dict[str, Any]] | None] = models.JSONField(
        decoder=StoredJSONDecoder, null=True, default=None
    )
    """The verdicts that were reached, and when they ended (see `results.verdicts`)."""
    archive: JSONObject = models.JSONField(decoder=StoredJSONDecoder, null=True, default=None)
    """What results need besides the sums once the events are deleted (see `results.archive`)."""

    def __str__(self) -> str:
        return f"Results of {self.experiment_id}"


class ValueColumns(models.Model):
    """The value of a metric for a user, before caps. Zeros are stored as NULL."""

    value = models.FloatField(null=True)
    """The value, the numerator of a ratio, or the number of events of a quantile."""
    denominator = models.FloatField(null=True)
    value_before = models.FloatField(null=True)
    """The value before the exposure, within the look-back."""
    denominator_before = models.FloatField(null=True)
    events = models.IntegerField(null=True)
    """The number of events of the metric from the exposure to the stop, whatever the window."""
    other_currency = models.IntegerField(null=True)
    """The number of amounts in the window that do not count, because their currency is another one."""
    without_number = models.IntegerField(null=True)
    """The number of events since the exposure that have a value of another type in place of their number."""
    metric = models.SmallIntegerField()
    """The index of the metric in the experiment."""
    variant_number = models.SmallIntegerField()
    """The index of the variant in the experiment."""
    phase = models.SmallIntegerField()
    steps = models.SmallIntegerField(null=True)
    """The number of steps of a funnel that the user passed in order."""
    is_ranked = models.BooleanField(null=True)
    """True where the metric has a cap at a percentile, else NULL."""
    user_id = models.CharField(max_length=NAME_LENGTH)

    class Meta:
        abstract = True


def _by_size(column: str, name: str) -> models.Index:
    """Return the index by which a cap at a percentile is found, and the users above it."""
    condition = Q(("is_ranked", True), (f"{column}__isnull", False))
    return models.Index(fields=("state", "metric", column), condition=condition, name=name)


class UserValue(ValueColumns):
    """The value of a metric for an exposed user.

    A user has a row for each metric that counts one of their events, and a row of EXPOSURE. A refresh subtracts these
    values from the sums before it adds the new ones. One transaction writes all rows of a user, so the unique row of
    EXPOSURE keeps each of them from being there twice.
    """

    # PostgreSQL has an index by state and user instead, which takes a tenth of the bytes: it holds each user once.
    pk = models.CompositePrimaryKey("state_id", "user_id", "metric")
    # No constraint: to check it for millions of rows would take longer than to write them.
    state = models.ForeignKey(
        ResultState, on_delete=models.PROTECT, related_name="values", db_index=False, db_constraint=False
    )
    exposed_at = models.DateTimeField(null=True)
    """This column and `in_several_variants` are set in rows of EXPOSURE only."""
    day = models.DateField()
    """The day of the exposure, in UTC."""
    in_several_variants = models.BooleanField(null=True)
    exposure = Join(Exposure, "user_id")
    """The exposures of the user in all experiments, in queries alone."""

    class Meta:
        indexes = (
            models.Index(fields=("state", "day"), condition=Q(metric=EXPOSURE), name="exposed_user_by_day"),
            _by_size("value", "value_by_size"),
            _by_size("value_before", "value_before_by_size"),
        )
        constraints = (
            models.UniqueConstraint(fields=("state", "user_id"), condition=Q(metric=EXPOSURE), name="exposed_user"),
        )

    def __str__(self) -> str:
        return f"Metric {self.metric} of {self.user_id}"


class DayValue(ValueColumns):
    """The value of a metric without a window for a user, from the end of one day until the end of a later day.

    A user has a row for each day on which the value changed. The last row has no end. Only metrics of which somebody
    asked for a series have rows.
    """

    pk = models.CompositePrimaryKey("state_id", "user_id", "metric", "since")
    state = models.ForeignKey(
        ResultState, on_delete=models.PROTECT, related_name="day_values", db_index=False, db_constraint=False
    )
    since = models.DateField()
    until = models.DateField(null=True)

    class Meta:
        indexes = (_by_size("value", "day_value_by_size"), _by_size("value_before", "day_value_before_by_size"))

    def __str__(self) -> str:
        return f"Metric {self.metric} of {self.user_id} since {self.since}"


class SumColumns(models.Model):
    """Sums over users. Sums of values, squares and products are exact."""

    users = models.IntegerField(default=0)
    """Exposed users, or users with an event of the metric since their exposure."""
    in_several_variants = models.IntegerField(default=0)
    positive = models.IntegerField(default=0)
    """Users with a value above 0."""
    nonzero = models.IntegerField(default=0)
    """Users with a value other than 0. Only metrics that add amounts, or have a percentile cap, count them."""
    active = models.IntegerField(default=0, db_default=0)
    """Users with a value or a denominator other than 0. Only ratios count them."""
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
    without_number = models.BigIntegerField(default=0, db_default=0)

    class Meta:
        abstract = True


class VariantSums(SumColumns):
    """The sums over the users of one variant who were exposed in one phase on one day.

    The statistics need nothing else, except for quantiles. Rows of EXPOSURE have `users` and `in_several_variants`.
    Rows of a funnel's step (see `results.sums.step_number`) have `users`. All other rows sum the capped values of
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
    """How much one day changed the sums of a metric without a window.

    The sum of all rows up to a day gives the sums at its end. For other metrics, `VariantSums` has all that is needed.
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
    """The effects of a started experiment at one time, so that lists need not compute results.

    The row counts while the experiment is stopped as of `stopped_at`, or runs if that is None. It is final if it was
    computed after the results were frozen. Erasing a user deletes the rows whose figures change. Only
    `results.outcomes` writes it.
    """

    experiment = models.OneToOneField(
        Experiment, on_delete=models.PROTECT, primary_key=True, related_name="outcome", db_constraint=False
    )
    stopped_at = models.DateTimeField(null=True)
    computed_at = models.DateTimeField()
    is_final = models.BooleanField()
    document: models.JSONField[dict[str, Any], dict[str, Any]] = models.JSONField(decoder=StoredJSONDecoder)

    def __str__(self) -> str:
        return f"Outcome of {self.experiment_id}"
