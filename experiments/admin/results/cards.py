"""One metric of an experiment as people look at it: what it is, its variants in a plot, and its slices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import orjson

from experiments.admin.results.daily import Daily, daily_of
from experiments.admin.results.rows import VariantRow, lift_range, variant_row
from experiments.admin.words import counted, definition_in_words, short_percent, unit_in_words
from experiments.metrics.definition import Definition
from experiments.results.types import Breakdown, MetricFigures, Slice, VariantFigures
from experiments.stats.charts import IntervalPlot, plot_intervals

_REST = "all others"
_NOT_RECORDED = "not recorded"


@dataclass(frozen=True, slots=True)
class SliceRows:
    """The treatments among the users with one value of an attribute."""

    label: str
    users: str
    rows: Sequence[VariantRow]


@dataclass(frozen=True, slots=True)
class Slices:
    """A metric by the values of an attribute, all on one scale."""

    attribute: str
    plot: IntervalPlot
    groups: Sequence[SliceRows]


@dataclass(frozen=True, slots=True)
class MetricCard:
    """A metric with all variants. `notes` say what one must know to read the figures."""

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


def metric_card(figures: MetricFigures, breakdown: Breakdown | None = None) -> MetricCard:
    definition = figures.definition
    plot = plot_intervals([lift_range(each) for each in figures.variants], short_percent)
    rows = [variant_row(definition, each, bar) for each, bar in zip(figures.variants, plot.bars, strict=True)]
    return MetricCard(
        definition=definition,
        metric_index=figures.metric_index,
        is_primary=figures.is_primary,
        words=definition_in_words(definition, figures.cap),
        unit=unit_in_words(definition),
        plot=plot,
        rows=rows,
        notes=_notes(figures, rows),
        daily=daily_of(figures),
        slices=_slices(figures, breakdown) if breakdown else None,
    )


def _notes(figures: MetricFigures, rows: Sequence[VariantRow]) -> list[str]:
    notes = []
    if foreign := sum(each.other_currency_events for each in figures.variants):
        notes.append(f"{counted(foreign, 'event')} in another currency or in none: not counted, never converted.")
    if immature := sum(each.immature_users or 0 for each in figures.variants):
        notes.append(f"{counted(immature, 'user')} not mature: they did not have their whole window yet.")
    if any(row.compared.is_lift_open for row in rows if row.compared):
        notes.append(
            "A lift also divides by the control's value, which is uncertain; what is better rests on differences."
        )
    return notes


def _slices(figures: MetricFigures, breakdown: Breakdown) -> Slices:
    treatments = [_treatments_of(each, figures.metric_index) for each in breakdown.values]
    plot = plot_intervals([lift_range(each) for of_slice in treatments for each in of_slice], short_percent)
    bars = iter(plot.bars)
    groups = [
        SliceRows(
            _label(each), f"{each.users:,}", [variant_row(figures.definition, one, next(bars)) for one in of_slice]
        )
        for each, of_slice in zip(breakdown.values, treatments, strict=True)
    ]
    return Slices(breakdown.attribute, plot, groups)


def _treatments_of(part: Slice, metric_index: int) -> list[VariantFigures]:
    figures = next(each for each in part.metrics if each.metric_index == metric_index)
    return [each for each in figures.variants if each.comparison]


def _label(part: Slice) -> str:
    """The value to the last digit, as in JSON; a text without quotes, where nothing else could be meant."""
    if part.is_rest:
        return _REST
    if part.value is None:
        return _NOT_RECORDED
    if isinstance(part.value, str) and _is_unmistakable(part.value):
        return part.value
    return orjson.dumps(part.value).decode()


def _is_unmistakable(text: str) -> bool:
    """Whether nothing else looks like this text on a page: no number or boolean, nor one with other spaces."""
    if text in ("", _REST, _NOT_RECORDED) or text != " ".join(text.split()):
        return False
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return True
    return False
