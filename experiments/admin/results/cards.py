"""The card of one metric on the results page: its variants, days and breakdown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date

import orjson

from experiments.admin.words import (
    NO_FIGURE,
    describe_definition,
    describe_unit,
    format_count,
    format_number,
    format_p_value,
    format_percent,
    format_points,
    format_probability,
    format_short_number,
    format_short_percent,
    with_sign,
)
from experiments.metrics.definition import Definition
from experiments.results.types import Breakdown, DayFigures, MetricFigures, Slice, VariantFigures
from experiments.stats.charts import Bar, IntervalPlot, Range, Series, SeriesPlot, plot_intervals, plot_series
from experiments.stats.types import Comparison, Cuped, Estimate, Interval, Reason, Test

_REST = "all others"
_NOT_RECORDED = "not recorded"
_TONES = {"better": "good", "worse": "bad"}

Format = Callable[[float], str]


@dataclass(frozen=True, slots=True)
class Figure:
    """An estimate with its interval and p-value, formatted; or the reason why there is none."""

    estimate: str = NO_FIGURE
    interval: str = ""
    p_value: str = NO_FIGURE
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Compared:
    """A treatment compared with the control, formatted.

    `standing` says whether the difference is better, worse or not yet shown. `is_lift_open`: the difference is shown
    but the lift is not, because a lift also divides by the control's value, which is uncertain itself.
    """

    lift: Figure
    difference: Figure
    fixed_horizon: Figure
    standing: str
    chance_to_beat: str
    expected_loss: str
    adjusted_p: str
    cuped: str
    is_lift_open: bool

    @property
    def tone(self) -> str:
        return _TONES.get(self.standing, "open")


@dataclass(frozen=True, slots=True)
class VariantRow:
    """One variant in the table of a metric. `compared` and `bar` are None for the control."""

    key: str
    users: str
    mature: str
    value: Figure
    compared: Compared | None
    bar: Bar | None


@dataclass(frozen=True, slots=True)
class DayRow:
    """One day of a series, for the tooltip and the table.

    `left` is where its column begins, in percent.
    """

    day: date
    left: float
    users: str
    value: str
    difference: Figure


@dataclass(frozen=True, slots=True)
class DailyFigure:
    """A treatment by day, as a drawing and as a table.

    `summary` is what a screen reader says of the drawing.
    """

    key: str
    drawn: Series
    days: Sequence[DayRow]
    summary: str

    @property
    def last_day(self) -> date:
        return self.days[-1].day


@dataclass(frozen=True, slots=True)
class Daily:
    """The difference to the control by day, for each treatment, on one scale."""

    unit: str
    plot: SeriesPlot
    figures: Sequence[DailyFigure]


@dataclass(frozen=True, slots=True)
class SliceRows:
    """The treatments among the users with one value of an attribute."""

    label: str
    users: str
    rows: Sequence[VariantRow]


@dataclass(frozen=True, slots=True)
class Slices:
    """A metric by the values of one attribute, all on one scale."""

    attribute: str
    plot: IntervalPlot
    groups: Sequence[SliceRows]


@dataclass(frozen=True, slots=True)
class MetricCard:
    """One metric with all its variants.

    `notes` say what a reader must know to interpret the figures.
    """

    definition: Definition
    metric_index: int
    is_primary: bool
    words: str
    unit: str
    plot: IntervalPlot
    rows: Sequence[VariantRow]
    notes: Sequence[str]
    daily: Daily | None
    slices: Slices | None

    @property
    def treatments(self) -> Sequence[VariantRow]:
        return [row for row in self.rows if row.compared]


def build_card(figures: MetricFigures, breakdown: Breakdown | None = None) -> MetricCard:
    definition = figures.definition
    plot = plot_intervals([_lift_range(variant) for variant in figures.variants], format_short_percent)
    rows = [_row(definition, variant, bar) for variant, bar in zip(figures.variants, plot.bars, strict=True)]
    return MetricCard(
        definition=definition,
        metric_index=figures.metric_index,
        is_primary=figures.is_primary,
        words=describe_definition(definition, figures.cap),
        unit=describe_unit(definition),
        plot=plot,
        rows=rows,
        notes=_notes(figures, rows),
        daily=_daily(figures),
        slices=_slices(figures, breakdown) if breakdown else None,
    )


def format_of_values(definition: Definition) -> Format:
    return format_percent if definition.is_share else format_number


def _notes(figures: MetricFigures, rows: Sequence[VariantRow]) -> list[str]:
    notes = []
    if foreign := sum(variant.other_currency_events for variant in figures.variants):
        notes.append(
            f"{format_count(foreign, 'event')} in another currency or without one: not counted. "
            "Amounts are never converted."
        )
    if immature := sum(variant.immature_users or 0 for variant in figures.variants):
        notes.append(f"{format_count(immature, 'user')} not mature: the metric's window has not ended for them yet.")
    if any(row.compared.is_lift_open for row in rows if row.compared):
        notes.append(
            "The difference is significant although the interval of the lift includes zero. The lift also divides by "
            "the control's value, which is uncertain itself. The verdict rests on the difference."
        )
    return notes


# variants


def _row(definition: Definition, figures: VariantFigures, bar: Bar | None) -> VariantRow:
    comparison = figures.comparison
    return VariantRow(
        key=figures.key,
        users=f"{figures.users:,}",
        mature=f"{figures.mature_users:,} mature" if figures.immature_users else "",
        value=_value(definition, figures),
        compared=_compare(definition, comparison) if comparison else None,
        bar=bar,
    )


def _value(definition: Definition, figures: VariantFigures) -> Figure:
    estimate, format_value = figures.estimate, format_of_values(definition)
    interval = _format_interval(estimate.interval, format_value) if estimate.interval else ""
    value = NO_FIGURE if estimate.value is None else format_value(estimate.value)
    return Figure(value, interval, reason=estimate.reason.message if estimate.reason else "")


def _compare(definition: Definition, comparison: Comparison) -> Compared:
    return Compared(
        lift=_figure(comparison.lift, _signed_percent),
        difference=_figure(comparison.difference, _format_of_differences(definition)),
        fixed_horizon=_figure(comparison.lift, _signed_percent, lambda estimate: estimate.fixed_horizon),
        standing=_standing(definition, comparison.difference),
        chance_to_beat=_or_none(comparison.chance_to_beat, format_probability),
        expected_loss=_or_none(comparison.expected_loss, _format_of_losses(definition)),
        adjusted_p=NO_FIGURE if comparison.adjusted_p is None else format_p_value(comparison.adjusted_p),
        cuped=_describe_cuped(comparison.cuped),
        is_lift_open=_includes_zero(comparison.lift) and not _includes_zero(comparison.difference),
    )


def _standing(definition: Definition, difference: Estimate | Reason) -> str:
    """Say what the always-valid interval of the difference shows, which the verdict rests on."""
    if isinstance(difference, Reason):
        return "not known"
    if _includes_zero(difference):
        return "no difference shown"
    return "better" if (difference.always_valid.upper < 0) == definition.is_decrease_good else "worse"


def _includes_zero(estimate: Estimate | Reason) -> bool:
    return isinstance(estimate, Estimate) and estimate.always_valid.lower <= 0 <= estimate.always_valid.upper


def _figure(
    estimate: Estimate | Reason,
    format_value: Format,
    test_of: Callable[[Estimate], Test] = lambda estimate: estimate.always_valid,
) -> Figure:
    if isinstance(estimate, Reason):
        return Figure(reason=estimate.message)
    test = test_of(estimate)
    return Figure(format_value(estimate.estimate), _format_interval(test, format_value), format_p_value(test.p_value))


def _describe_cuped(cuped: Cuped | Reason) -> str:
    if isinstance(cuped, Reason):
        return cuped.message
    lift = _figure(cuped.lift, _signed_percent)
    text = lift.reason or f"{lift.estimate} ({lift.interval})"
    return f"{text}, with {100 * cuped.variance_reduction:.0f} % less variance"


def _format_interval(interval: Interval | Test, format_value: Format) -> str:
    return f"{format_value(interval.lower)} to {format_value(interval.upper)}"


def _format_of_differences(definition: Definition) -> Format:
    return format_points if definition.is_share else lambda value: with_sign(format_number(value))


def _format_of_losses(definition: Definition) -> Format:
    return (lambda value: format_points(value).lstrip("+")) if definition.is_share else format_number


def _or_none(value: float | Reason, format_value: Format) -> str:
    return NO_FIGURE if isinstance(value, Reason) else format_value(value)


def _signed_percent(share: float) -> str:
    return with_sign(format_percent(share))


def _lift_range(figures: VariantFigures) -> Range | None:
    comparison = figures.comparison
    return _range(comparison.lift) if comparison else None


def _range(estimate: Estimate | Reason | None) -> Range | None:
    if not isinstance(estimate, Estimate):
        return None
    return Range(estimate.always_valid.lower, estimate.estimate, estimate.always_valid.upper)


# days


def _daily(figures: MetricFigures) -> Daily | None:
    """Return the course of each treatment, or None where the series was not requested."""
    treatments = [variant for variant in figures.variants if variant.series and variant.comparison]
    if not treatments:
        return None
    definition = figures.definition
    scale = 100 if definition.is_share else 1
    plot = plot_series(
        [[_range(day.difference) for day in variant.series] for variant in treatments],
        lambda difference: with_sign(format_short_number(scale * difference)),
    )
    unit = "percentage points" if definition.is_share else definition.quantity.currency
    drawings = [_daily_figure(definition, *pair) for pair in zip(treatments, plot.series, strict=True)]
    return Daily(unit, plot, drawings)


def _daily_figure(definition: Definition, figures: VariantFigures, drawn: Series) -> DailyFigure:
    days = [_day(definition, day, round(index * drawn.column, 4)) for index, day in enumerate(figures.series)]
    last = days[-1].difference
    text = last.reason or f"{last.estimate}, always-valid interval {last.interval}"
    return DailyFigure(figures.key, drawn, days, f"{figures.key} against the control by day; on the last day: {text}")


def _day(definition: Definition, day: DayFigures, left: float) -> DayRow:
    value = NO_FIGURE if day.value is None else format_of_values(definition)(day.value)
    difference = Figure() if day.difference is None else _figure(day.difference, _format_of_differences(definition))
    return DayRow(day.day, left, f"{day.users:,}", value, difference)


# breakdown


def _slices(figures: MetricFigures, breakdown: Breakdown) -> Slices:
    treatments = [_treatments_of(part, figures.metric_index) for part in breakdown.values]
    ranges = [_lift_range(variant) for variants in treatments for variant in variants]
    plot = plot_intervals(ranges, format_short_percent)
    bars = iter(plot.bars)
    groups = [
        SliceRows(
            label=_label(part),
            users=f"{part.users:,}",
            rows=[_row(figures.definition, variant, next(bars)) for variant in variants],
        )
        for part, variants in zip(breakdown.values, treatments, strict=True)
    ]
    return Slices(breakdown.attribute, plot, groups)


def _treatments_of(part: Slice, metric_index: int) -> list[VariantFigures]:
    figures = next(metric for metric in part.metrics if metric.metric_index == metric_index)
    return [variant for variant in figures.variants if variant.comparison]


def _label(part: Slice) -> str:
    """Return the value exactly, as in JSON; a text without quotes if it is unambiguous."""
    if part.is_rest:
        return _REST
    if part.value is None:
        return _NOT_RECORDED
    if isinstance(part.value, str) and not _needs_quotes(part.value):
        return part.value
    return orjson.dumps(part.value).decode()


def _needs_quotes(text: str) -> bool:
    """Return whether a text looks like a number, a boolean or a label, or has odd spaces."""
    if text in ("", _REST, _NOT_RECORDED) or text != " ".join(text.split()):
        return True
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return True
