"""A metric from day to day: drawings of the difference to the control, and the same as tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from experiments.admin.results.rows import Figure, figure, range_of, writer_of_differences, writer_of_values
from experiments.admin.words import NO_FIGURE, plus, short_number
from experiments.metrics.definition import Definition
from experiments.results.types import DayFigures, MetricFigures, VariantFigures
from experiments.stats.charts import Series, SeriesPlot, plot_series


@dataclass(frozen=True, slots=True)
class DayRow:
    """A day of a series: what it says when it is pointed at, and in the table. `left` is where its column begins."""

    day: date
    left: float
    users: str
    value: str
    difference: Figure


@dataclass(frozen=True, slots=True)
class DailyFigure:
    """A treatment from day to day, drawn and as a table. `summary` is what the drawing says, for those who hear it."""

    key: str
    drawn: Series
    days: Sequence[DayRow]
    summary: str

    @property
    def last_day(self) -> date:
        return self.days[-1].day


@dataclass(frozen=True, slots=True)
class Daily:
    """The difference to the control as it stood at the end of each day, treatment by treatment on one scale."""

    unit: str
    plot: SeriesPlot
    figures: Sequence[DailyFigure]


def daily_of(figures: MetricFigures) -> Daily | None:
    """None where nobody asked for the series."""
    treatments = [each for each in figures.variants if each.series and each.comparison]
    if not treatments:
        return None
    definition = figures.definition
    label = _short_points if definition.is_share else _short_difference
    plot = plot_series([[range_of(day.difference) for day in each.series] for each in treatments], label)
    unit = "percentage points" if definition.is_share else definition.quantity.currency
    told = [_daily_figure(definition, *each) for each in zip(treatments, plot.series, strict=True)]
    return Daily(unit, plot, told)


def _short_points(difference: float) -> str:
    return plus(short_number(100 * difference))


def _short_difference(difference: float) -> str:
    return plus(short_number(difference))


def _daily_figure(definition: Definition, figures: VariantFigures, drawn: Series) -> DailyFigure:
    days = [_day(definition, day, round(at * drawn.column, 4)) for at, day in enumerate(figures.series)]
    last = days[-1].difference
    told = last.reason or f"{last.estimate}, always-valid interval {last.interval}"
    return DailyFigure(figures.key, drawn, days, f"{figures.key} against the control by day; on the last day: {told}")


def _day(definition: Definition, day: DayFigures, left: float) -> DayRow:
    value = NO_FIGURE if day.value is None else writer_of_values(definition)(day.value)
    difference = Figure() if day.difference is None else figure(day.difference, writer_of_differences(definition))
    return DayRow(day.day, left, f"{day.users:,}", value, difference)
