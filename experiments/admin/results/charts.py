"""The effect of each treatment by day, and by days since the exposure, as drawings and as tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from experiments.admin.results.comparisons import MIN_LIFT
from experiments.admin.results.formatting import (
    Figure,
    Format,
    always_valid,
    figure_of,
    format_of_differences,
    format_of_values,
    label_of_differences,
    lift_of,
    unit_of_differences,
)
from experiments.metrics.definition import Definition
from experiments.results.types import AgeFigures, DayFigures, MetricFigures, VariantFigures
from experiments.stats.charts import Range, Series, SeriesPlot, plot_series
from experiments.stats.numbers import NO_FIGURE, format_short_percent
from experiments.stats.types import Estimate, Reason

DayOrAge = DayFigures | AgeFigures


@dataclass(frozen=True, slots=True)
class DayRow:
    """One day of a chart, for the tooltip and the table. `left` is where its column begins, in percent."""

    label: str
    left: float
    users: str
    value: str
    effect: Figure


@dataclass(frozen=True, slots=True)
class EffectSeries:
    """A treatment by day, as a drawing and as a table. Screen readers read the `summary`."""

    key: str
    drawn: Series
    days: Sequence[DayRow]
    summary: str

    @property
    def last_day(self) -> DayRow:
        return self.days[-1]


@dataclass(frozen=True, slots=True)
class EffectChart:
    """The effect of each treatment by day, on one scale. `name` says what a day is, `effect` what is drawn."""

    name: str
    effect: str
    plot: SeriesPlot
    figures: Sequence[EffectSeries]


@dataclass(frozen=True, slots=True)
class _Drawn:
    """What is drawn of each day: the lift, or the difference if no day has a lift. Nothing is below `least`."""

    effect: str
    effect_of: Callable[[DayOrAge], Estimate | Reason | None]
    describe: Callable[[Estimate | Reason], Figure]
    label: Format
    least: float = -math.inf


def build_days(figures: MetricFigures) -> EffectChart | None:
    """Return the chart as of the end of each day; None if nobody asked for it."""
    return _chart(figures, "End of", lambda variant: variant.series, is_last_best=True)


def build_ages(figures: MetricFigures) -> EffectChart | None:
    """Return the chart by days since the exposure; None if nobody asked for it."""
    return _chart(figures, "Day since exposure", lambda variant: variant.ages, is_last_best=False)


def _chart(
    figures: MetricFigures,
    name: str,
    days_of: Callable[[VariantFigures], Sequence[DayOrAge]],
    *,
    is_last_best: bool,
) -> EffectChart | None:
    treatments = {variant.key: days_of(variant) for variant in figures.variants if variant.comparison}
    if not any(treatments.values()):
        return None
    drawn = _drawn(figures.definition, [day for days in treatments.values() for day in days])
    ranges = [[_range(drawn.effect_of(day)) for day in days] for days in treatments.values()]
    plot = plot_series(ranges, drawn.label, is_last_best=is_last_best, least=drawn.least)
    shown = [
        _figure(figures.definition, key, days, series, drawn)
        for (key, days), series in zip(treatments.items(), plot.series, strict=True)
    ]
    return EffectChart(name, drawn.effect, plot, shown)


def _drawn(definition: Definition, days: Sequence[DayOrAge]) -> _Drawn:
    if any(isinstance(day.lift, Estimate) for day in days):
        return _Drawn(
            "lift over the control",
            lambda day: day.lift,
            lambda lift: lift_of(lift, always_valid),
            format_short_percent,
            MIN_LIFT,
        )
    unit, format_difference = unit_of_differences(definition), format_of_differences(definition)
    return _Drawn(
        f"difference from the control{f' in {unit}' if unit else ''}",
        lambda day: day.difference,
        lambda difference: figure_of(difference, format_difference, always_valid),
        label_of_differences(definition),
    )


def _range(estimate: Estimate | Reason | None) -> Range | None:
    if not isinstance(estimate, Estimate):
        return None
    return Range(estimate.always_valid.lower, estimate.estimate, estimate.always_valid.upper)


def _figure(definition: Definition, key: str, days: Sequence[DayOrAge], series: Series, drawn: _Drawn) -> EffectSeries:
    rows = [_row(definition, day, round(index * series.column, 4), drawn) for index, day in enumerate(days)]
    last = rows[-1].effect
    text = last.reason or f"{last.estimate}, always-valid interval {last.interval}"
    return EffectSeries(key, series, rows, f"{key}: {drawn.effect} by day; on the last day: {text}")


def _row(definition: Definition, day: DayOrAge, left: float, drawn: _Drawn) -> DayRow:
    value = NO_FIGURE if day.value is None else format_of_values(definition)(day.value)
    effect = drawn.effect_of(day)
    users = day.users if isinstance(day, AgeFigures) else day.counted_users
    label = f"day {day.day}" if isinstance(day, AgeFigures) else f"{day.day:%-d %b %Y}"
    figure = Figure() if effect is None else drawn.describe(effect)
    return DayRow(label, left, f"{users:,}", value, figure)
