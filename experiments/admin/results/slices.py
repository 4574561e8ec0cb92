"""A metric by the values of one attribute of the users."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC

import orjson

from experiments.admin.results.comparisons import MIN_LIFT, VariantRow, build_row, range_of
from experiments.results.types import Breakdown, MetricFigures, Results, Slice, VariantFigures
from experiments.stats.charts import IntervalPlot, plot_intervals
from experiments.stats.numbers import equate_p_value, format_short_percent
from experiments.stats.types import Reason

_REST = "all others"
_NOT_RECORDED = "not recorded"
_SIGNIFICANT = 0.05


@dataclass(frozen=True, slots=True)
class SliceRows:
    """The treatments among the users with one value of an attribute."""

    label: str
    users: str
    rows: Sequence[VariantRow]


@dataclass(frozen=True, slots=True)
class Slices:
    """A metric by the values of an attribute, on one scale. `notes` say whether the effect differs between them."""

    attribute: str
    plot: IntervalPlot
    groups: Sequence[SliceRows]
    notes: Sequence[str]


def build_slices(results: Results, figures: MetricFigures, breakdown: Breakdown) -> Slices:
    treatments = [_treatments_of(part, figures.metric_index) for part in breakdown.values]
    ranges = [range_of(variant.comparison, "lift") for variants in treatments for variant in variants]
    plot = plot_intervals(ranges, format_short_percent, least=MIN_LIFT)
    bars = iter(plot.bars)
    groups = [
        SliceRows(
            label=_label(part),
            users=f"{part.users:,}",
            rows=[build_row(results, figures.definition, variant, next(bars)) for variant in variants],
        )
        for part, variants in zip(breakdown.values, treatments, strict=True)
    ]
    notes = [*_moment(results, breakdown), *_interactions(figures, breakdown)]
    return Slices(breakdown.attribute, plot, groups, notes)


def _moment(results: Results, breakdown: Breakdown) -> Iterator[str]:
    """Yield a note if the values are not as of the one reading, as all other figures are."""
    if results.read_at is not None and breakdown.as_of is not None and breakdown.as_of != results.read_at:
        yield (
            f"These values are as of the stop on {breakdown.as_of.astimezone(UTC):%-d %b %Y}, not as of the one "
            "reading: the events until the reading may have been deleted."
        )


def _treatments_of(part: Slice, metric_index: int) -> list[VariantFigures]:
    figures = next(metric for metric in part.metrics if metric.metric_index == metric_index)
    return [variant for variant in figures.variants if variant.comparison]


def _interactions(figures: MetricFigures, breakdown: Breakdown) -> Iterator[str]:
    """Yield for each treatment whether its lift differs between the values."""
    for interaction in breakdown.interactions:
        if interaction.metric_index != figures.metric_index:
            continue
        if isinstance(interaction.p_value, Reason):
            yield f"{interaction.variant}: {interaction.p_value.message}"
            continue
        verb = "differs" if interaction.p_value < _SIGNIFICANT else "is not shown to differ"
        p = equate_p_value(interaction.p_value)
        yield f"{interaction.variant}: the effect {verb} between the values (interaction test, one look, {p})."


def _label(part: Slice) -> str:
    """Return the value as in JSON; a string without quotes if it is unambiguous."""
    if part.is_rest:
        return _REST
    if part.value is None:
        return _NOT_RECORDED
    if isinstance(part.value, str) and not _needs_quotes(part.value):
        return part.value
    return orjson.dumps(part.value).decode()


def _needs_quotes(text: str) -> bool:
    """Return whether a string looks like a number, a boolean or a label, or has odd spaces."""
    if text in ("", _REST, _NOT_RECORDED) or text != " ".join(text.split()):
        return True
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return True
