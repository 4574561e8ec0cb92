"""One variant in the table of a metric."""

from __future__ import annotations

from dataclasses import dataclass

from experiments.admin.results.comparisons import Compared, compare
from experiments.admin.results.formats import Figure, format_interval, format_of_values, lift_of
from experiments.metrics.definition import Definition
from experiments.results.types import Results, VariantFigures
from experiments.stats.charts import Bar
from experiments.stats.numbers import NO_FIGURE
from experiments.stats.types import VariantEstimate


@dataclass(frozen=True, slots=True)
class RawRow:
    """The figures of a variant without the adjustment for history, formatted. `lift` is None for the control."""

    value: Figure
    lift: Figure | None


@dataclass(frozen=True, slots=True)
class VariantRow:
    """One variant in the table of a metric. `compared` and `bar` are None for the control.

    `users` are those who count, and `others` says how many of all are not mature. Without adjustment, `raw` is None.
    """

    key: str
    users: str
    others: str
    value: Figure
    compared: Compared | None
    bar: Bar | None
    raw: RawRow | None

    @property
    def has_reason_alone(self) -> bool:
        """Return whether this is the control, with a reason in place of a figure."""
        return self.compared is None and bool(self.value.reason)


def build_row(results: Results, definition: Definition, figures: VariantFigures, bar: Bar | None) -> VariantRow:
    comparison = figures.comparison
    return VariantRow(
        key=figures.key,
        users=f"{figures.counted_users:,}",
        others=_describe_others(results, figures),
        value=_value(definition, figures.estimate),
        compared=compare(definition, figures, comparison, results.user_of(definition)) if comparison else None,
        bar=bar,
        raw=_raw(definition, figures.raw) if figures.raw else None,
    )


def _describe_others(results: Results, figures: VariantFigures) -> str:
    """Say how many users wait for the end of their window, or will never reach it."""
    if not figures.immature_users:
        return ""
    is_over = results.experiment.stopped_at is not None or results.read_at is not None
    return f"{figures.immature_users:,} {'cut off' if is_over else 'waiting'}"


def _value(definition: Definition, estimate: VariantEstimate) -> Figure:
    format_value = format_of_values(definition)
    interval = format_interval(estimate.interval, format_value) if estimate.interval else ""
    value = NO_FIGURE if estimate.value is None else format_value(estimate.value)
    return Figure(value, interval, reason=estimate.reason.message if estimate.reason else "")


def _raw(definition: Definition, estimate: VariantEstimate) -> RawRow:
    comparison = estimate.comparison
    lift = lift_of(comparison.lift, comparison.deciding) if comparison else None
    return RawRow(_value(definition, estimate), lift)
