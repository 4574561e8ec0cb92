"""What leaves the service: the printable report, with the design and the method in words, and plots as SVG files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from django.template.loader import render_to_string
from django.utils.safestring import SafeString

from experiments.admin.results.charts import EffectChart
from experiments.admin.results.comparisons import VariantRow
from experiments.admin.results.metric_card import MetricCard
from experiments.admin.results.notes import CORRECTION_NAMES
from experiments.admin.results.panel import Panel
from experiments.admin.results.slices import Slices
from experiments.admin.words import describe_audience, describe_flag, describe_plan, describe_split
from experiments.models import Experiment
from experiments.results.types import Results
from experiments.stats.charts import IntervalPlot

PlotKind = Literal["intervals", "breakdown", "days", "ages"]
PLOT_KINDS: Sequence[PlotKind] = ("intervals", "breakdown", "days", "ages")
_TEMPLATE = "admin/experiments/experiment/plot.svg"
_TOP = 64
_ROW, _FOOT = 40, 40
_CHART = 200


@dataclass(frozen=True, slots=True)
class PlotPart:
    """A part of a plot at its distance from the top. `label` is written above a part of a group."""

    top: int
    part: Any
    label: str = ""


def file_name(experiment: str, metric: str, kind: PlotKind) -> str:
    return f"{experiment}-{metric}-{kind}.svg"


def draw_plot(card: MetricCard, kind: PlotKind, *, title: str, note: str) -> str | None:
    """Return a plot of a metric as an SVG document; None if there is nothing to draw."""
    shared = {"card": card, "title": title, "note": note}
    match kind:
        case "intervals":
            return _draw_intervals([("", row) for row in card.rows], card.plot, shared)
        case "breakdown":
            return _draw_slices(card.slices, shared) if card.slices else None
        case "days":
            return _draw_chart(card.days, shared) if card.days else None
        case "ages":
            return _draw_chart(card.ages, shared) if card.ages else None


def _draw_slices(slices: Slices, shared: dict[str, Any]) -> str | None:
    rows = [(group.label, row) for group in slices.groups for row in group.rows]
    return _draw_intervals(rows, slices.plot, {**shared, "title": f"{shared['title']} by {slices.attribute}"})


def _draw_intervals(rows: Sequence[tuple[str, VariantRow]], plot: IntervalPlot, shared: dict[str, Any]) -> str | None:
    if not plot.is_drawn:
        return None
    places = [PlotPart(_TOP + index * _ROW, row, label) for index, (label, row) in enumerate(rows)]
    bottom = _TOP + len(places) * _ROW
    values = {"rows": places, "plot": plot, "bottom": bottom, "height": bottom + _FOOT}
    return render_to_string(_TEMPLATE, {**shared, **values})


def _draw_chart(chart: EffectChart, shared: dict[str, Any]) -> str:
    figures = [PlotPart(_TOP + index * _CHART, figure) for index, figure in enumerate(chart.figures)]
    bottom = _TOP + len(figures) * _CHART
    values = {"chart": chart, "figures": figures, "bottom": bottom, "height": bottom + _FOOT}
    return render_to_string(_TEMPLATE, {**shared, **values})


def describe_design(experiment: Experiment) -> list[tuple[str, str]]:
    """Return the parts of the design by name."""
    parts = [
        ("Variants", describe_split(experiment.variants)),
        ("Audience", describe_audience(experiment)),
        ("Flag", describe_flag(experiment)),
        ("Metrics", ", ".join(experiment.metrics) or "none"),
        ("Plan", describe_plan(experiment)),
    ]
    return [(name, words) for name, words in parts if words]


def describe_method(results: Results) -> Iterator[str]:
    """Yield sentences about how the figures were computed."""
    if results.plan.analysis == "fixed":
        yield "The analysis is fixed: the results are read once, at the planned size, by the fixed-horizon test."
    else:
        yield "Intervals and p-values are always valid: they hold however often somebody looks."
    yield f"All variants are compared with {results.control}, and each exposed user counts once, for the first variant."
    correction = CORRECTION_NAMES[results.correction]
    yield f"P-values and intervals of several tests are corrected by the method of {correction}."
    days = (results.experiment.registration or {}).get("lookbackDays", 0)
    if days:
        yield f"Figures are adjusted for the {days} days before the exposure (CUPED), where these explain anything."
    if any(metric.definition.counts_mature_users for metric in results.metrics):
        whom = (
            "users whose window is over"
            if results.maturity == "mature"
            else "all users, also those whose window is open"
        )
        yield f"For metrics with a window, the figures count {whom}."
    yield "A lift is the difference from the control as a share of the control's value, with Fieller's interval."


def drawings(panel: Panel) -> list[tuple[MetricCard, SafeString]]:
    """Return each metric with its plot, which is empty if there is nothing to draw."""
    return [
        (card, SafeString(draw_plot(card, "intervals", title=card.definition.key, note="") or ""))
        for card in panel.cards
    ]
