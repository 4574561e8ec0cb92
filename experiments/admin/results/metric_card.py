"""The card of one metric on the results page: its variants, and everything that is one click away."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from experiments.admin.results.charts import EffectChart, build_ages, build_days
from experiments.admin.results.comparisons import (
    MIN_LIFT,
    EffectName,
    VariantRow,
    build_row,
    margin_of,
    plotted_effect,
    range_of,
)
from experiments.admin.results.formatting import label_of_differences
from experiments.admin.results.notes import describe_never_received, notes_on, warnings_of
from experiments.admin.results.slices import Slices, build_slices
from experiments.admin.words import describe_definition, describe_margin, describe_unit
from experiments.metrics.definition import Definition
from experiments.results.types import MetricFigures, Results, VariantFigures
from experiments.stats.charts import IntervalPlot, Range, plot_intervals
from experiments.stats.numbers import format_count, format_percent, format_short_percent
from experiments.stats.types import Cuped, Reason


@dataclass(frozen=True, slots=True)
class StepRow:
    """A step of a funnel. `passed` has for each variant its users, and their share."""

    event: str
    passed: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class MetricCard:
    """One metric with all its variants.

    `never_received` says which of its events never came, and what to do. `warnings` are reasons for doubt, and `notes`
    what a reader must know. `adjustment` says what CUPED did, or why it did nothing.
    """

    definition: Definition
    metric_index: int
    is_primary: bool
    words: str
    margin: str
    unit: str
    plot: IntervalPlot
    rows: Sequence[VariantRow]
    never_received: str
    warnings: Sequence[str]
    notes: Sequence[str]
    adjustment: str
    steps: Sequence[StepRow]
    days: EffectChart | None
    ages: EffectChart | None
    slices: Slices | None

    @property
    def treatments(self) -> Sequence[VariantRow]:
        return [row for row in self.rows if row.compared]

    @property
    def is_adjusted(self) -> bool:
        return any(row.raw for row in self.rows)

    @property
    def is_corrected(self) -> bool:
        return any(row.compared.unadjusted_p for row in self.rows if row.compared)

    @property
    def before(self) -> Sequence[VariantRow]:
        """Return the treatments that can be compared with the control before the exposure."""
        return [row for row in self.treatments if row.compared and row.compared.before.interval]


def build_card(results: Results, figures: MetricFigures) -> MetricCard:
    definition = figures.definition
    plot = _plot(figures)
    breakdown = results.breakdown
    return MetricCard(
        definition=definition,
        metric_index=figures.metric_index,
        is_primary=figures.is_primary,
        words=describe_definition(definition, figures.cap),
        margin=describe_margin(definition),
        unit=describe_unit(definition),
        plot=plot,
        rows=[build_row(results, definition, *pair) for pair in zip(figures.variants, plot.bars, strict=True)],
        never_received=describe_never_received(results, figures),
        warnings=list(warnings_of(results, figures)),
        notes=list(notes_on(results, figures)),
        adjustment=_describe_adjustment(results, figures),
        steps=list(_steps(figures.variants)),
        days=build_days(figures),
        ages=build_ages(figures),
        slices=build_slices(results, figures, breakdown) if breakdown else None,
    )


def _plot(figures: MetricFigures) -> IntervalPlot:
    """Return the plot of the lifts, or of the differences if there is no lift."""
    effect = plotted_effect(variant.comparison for variant in figures.variants)
    ranges = [_range(figures.definition, variant, effect) for variant in figures.variants]
    if effect == "lift":
        return plot_intervals(ranges, format_short_percent, least=MIN_LIFT)
    return plot_intervals(ranges, label_of_differences(figures.definition))


def _range(definition: Definition, figures: VariantFigures, effect: EffectName) -> Range | None:
    """Return what the plot shows of a variant, with the margin of a guardrail as its mark."""
    drawn = range_of(figures.comparison, effect)
    return replace(drawn, mark=margin_of(definition, figures.comparison, effect)) if drawn else None


def _describe_adjustment(results: Results, figures: MetricFigures) -> str:
    """Say what CUPED did, for each group of treatments that are compared over the same phases."""
    adjustments = {variant.key: variant.comparison.cuped for variant in figures.variants if variant.comparison}
    if len(dict.fromkeys(adjustments.values())) < 2:
        return next((_describe_cuped(results, cuped) for cuped in adjustments.values()), "")
    return " ".join(f"{key}: {_describe_cuped(results, cuped)}" for key, cuped in adjustments.items())


def _describe_cuped(results: Results, cuped: Cuped | Reason) -> str:
    if isinstance(cuped, Reason):
        return cuped.message
    days = format_count((results.experiment.registration or {}).get("lookbackDays", 0), "day")
    return (
        f"The figures are adjusted for what users did in the {days} before their exposure (CUPED). "
        f"This removes {format_percent(cuped.variance_reduction)} of the variance."
    )


def _steps(variants: Sequence[VariantFigures]) -> Iterator[StepRow]:
    for steps in zip(*(variant.steps for variant in variants), strict=True):
        passed = [(f"{step.users:,}", "" if step.share is None else format_percent(step.share)) for step in steps]
        yield StepRow(steps[0].event, passed)
