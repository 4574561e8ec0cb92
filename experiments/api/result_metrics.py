"""The figures of metrics by variant, by day and by the values of an attribute, as JSON."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any, Self

import msgspec
from msgspec import UNSET, Meta, UnsetType

from config.api.structs import Answer, Count, Key, Moment, Name, Share, described
from config.documents import Document
from experiments.api.metric_serializers import MetricDefinition
from experiments.api.result_comparisons import Comparison, ConfidenceInterval, EffectEstimate, RawFigures, Reason
from experiments.metrics.definition import Definition
from experiments.results import types as results
from experiments.results.breakdown import MAX_VALUES
from experiments.stats import types as stats


class DayFigures(Answer):
    """The figures as they were at the end of this day, by the timestamps of exposures and events.

    Quantiles are not computed for past days, so only the last day has one.
    """

    day: Annotated[date, described("The day, in UTC.")]
    users: Annotated[Count, described("Distinct users who had been exposed by then.")]
    counted_users: Annotated[Count, described("The users of these who counted for the metric by then.")]
    value: float | None
    interval: ConfidenceInterval | None
    difference: Annotated[EffectEstimate | None, described("Null for the control.")]
    lift: Annotated[EffectEstimate | None, described("Null for the control.")]


class AgeFigures(Answer):
    """The figures of what users did on one day since their exposure.

    The tests are corrected over all days together.
    """

    day: Annotated[Count, described("The number of whole days since the exposure: 0 is the first 24 hours.")]
    users: Annotated[Count, described("The users for whom this day is over.")]
    value: float | None
    interval: ConfidenceInterval | None
    difference: Annotated[EffectEstimate | None, described("Null for the control.")]
    lift: Annotated[EffectEstimate | None, described("Null for the control.")]


class WaitingUsers(Answer):
    """The users who do not count yet, because the window of the metric is still open for them."""

    users: Count
    half_mature_at: Annotated[Moment, described("About when half will count, if they came evenly over each day.")]


class PassedStep(Answer):
    """The users who passed a step of a funnel and all steps before it, in order."""

    event: Name
    users: Count
    share: Annotated[Share | None, described("Of the users who count. Null if there are none.")]


class VariantFigures(Answer, kw_only=True):
    """One metric of one variant."""

    key: Key
    users: Annotated[Count, described("Distinct users exposed.")]
    mature_users: Annotated[
        Count,
        described(
            "The users whose whole window has passed. Only they count, unless `maturity` is `all`. Those without an "
            "event count as 0."
        ),
    ]
    waiting: Annotated[WaitingUsers | None, described("The users whose window can still pass. Null if there are none.")]
    cut_off_users: Annotated[Count, described("The users whose window the stop cut off. They never count.")]
    value: Annotated[
        float | None,
        described(
            "A share from 0 to 1, a mean by user, for a ratio numerator by denominator, or a quantile, which may lie "
            "between two values if many events share one. It is adjusted by CUPED if that was registered."
        ),
    ]
    interval: ConfidenceInterval | None
    reason: Annotated[Reason | None, described("Why value or interval is null.")]
    raw: Annotated[RawFigures | None, described("The figures without CUPED. Null if the figures are not adjusted.")]
    events: Annotated[Count, described("Events of users who count, since their exposures and in any window.")]
    other_currency_events: Annotated[
        Count,
        described(
            "Events in the window with an amount (`revenue`) in another currency, or in none. They do not count."
        ),
    ]
    events_without_number: Annotated[
        Count,
        described(
            "Events since the exposures that have a text, or another value that is no number, in place of the number "
            "that the metric adds. They add nothing."
        ),
    ]
    comparison: Annotated[Comparison | None, described("Null for the control.")]
    steps: Annotated[list[PassedStep] | UnsetType, described("For funnels: the users by step.")] = UNSET
    series: Annotated[
        list[DayFigures] | UnsetType, described("With `series=daily`: every day since the first exposure.")
    ] = UNSET
    days_since_exposure: Annotated[
        list[AgeFigures] | UnsetType,
        described("With `series=daysSinceExposure`: shows whether an effect wears off, or has to be learned."),
    ] = UNSET

    @classmethod
    def of(cls, source: results.VariantFigures, **others: Any) -> Self:
        lookback_days, before = others.pop("lookback_days"), source.before
        comparison = source.comparison
        compared = (
            None
            if comparison is None or before is None
            else Comparison.of(comparison, lookback_days=lookback_days, before=before)
        )
        return super().of(source, comparison=compared, days_since_exposure=source.ages, **others)


class MetricFigures(MetricDefinition, kw_only=True):
    """One metric in all variants, by the definition that the experiment took over when it started."""

    cap: Annotated[float | None, described("The cap in force: higher values count as this value.")]
    is_primary: Annotated[bool, described("Whether the verdict rests on it: it was the first goal at the start.")]
    never_received: Annotated[
        list[Name],
        described("The names of its events that this environment has never received, for example misspelt ones."),
    ]
    variants: Annotated[list[VariantFigures], described("In the order of the experiment.")]

    @classmethod
    def of(cls, source: results.MetricFigures, **others: Any) -> Self:
        lookback_days = others["lookback_days"]
        own = {
            "cap": source.cap,
            "isPrimary": source.is_primary,
            "neverReceived": list(source.never_received),
            "variants": [VariantFigures.of(variant, lookback_days=lookback_days) for variant in source.variants],
        }
        return msgspec.convert({**definition_as_json(source.definition), **own}, cls)


class SliceMetric(Answer):
    """One metric of the users with one value of the attribute."""

    key: Name
    variants: list[VariantFigures]

    @classmethod
    def of(cls, source: results.MetricFigures, **others: Any) -> Self:
        return cls(source.key, [VariantFigures.of(variant, **others) for variant in source.variants])


class ResultSlice(Answer):
    """The figures of the users with one value of the attribute."""

    value: Annotated[str | float | bool | None, described("Null if no value was recorded, and with `isRest`.")]
    is_rest: Annotated[bool, described("Whether these are the users with all other values.")]
    users: Count
    metrics: list[SliceMetric]

    @classmethod
    def of(cls, source: results.Slice, **others: Any) -> Self:
        return super().of(source, metrics=[SliceMetric.of(metric, **others) for metric in source.metrics])


class MetricInteraction(Answer):
    """Whether the effect of a treatment on a metric differs between the values of the attribute."""

    metric: Name
    variant: Key
    p_value: Annotated[
        Share | None,
        described("Cochran's Q over the values, for a single look. A low one says that the effects are not all equal."),
    ]
    reason: Annotated[Reason | None, described("Why the p-value is null.")]

    @classmethod
    def of(cls, source: results.Interaction, **others: Any) -> Self:
        is_missing = isinstance(source.p_value, stats.Reason)
        missing = {"p_value": None, "reason": source.p_value} if is_missing else {"reason": None}
        return super().of(source, **missing, **others)


class ResultBreakdown(Answer):
    """The figures by the values of an attribute."""

    attribute: str
    as_of: Annotated[
        Moment | None,
        described(
            "The moment of these figures: that of the results, or of the one reading of a fixed analysis. From 30 days "
            "after the stop, the events of that time may be gone; then it is the stop. Null for a draft."
        ),
    ]
    values: Annotated[
        list[ResultSlice],
        Meta(max_length=MAX_VALUES + 2),
        described("The value with the most users comes first, the rest last."),
    ]
    interactions: Annotated[list[MetricInteraction], described("One for each metric and treatment.")]

    @classmethod
    def of(cls, source: results.Breakdown, **others: Any) -> Self:
        keys = others.pop("keys")  # of the metrics, by their index; there may be no value at all
        return super().of(
            source,
            values=[ResultSlice.of(part, **others) for part in source.values],
            interactions=[
                MetricInteraction.of(interaction, metric=keys[interaction.metric_index])
                for interaction in source.interactions
            ],
        )


def definition_as_json(definition: Definition) -> Document:
    return {**definition.as_json(), "isPostHoc": definition.is_post_hoc}
