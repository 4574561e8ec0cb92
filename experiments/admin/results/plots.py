"""The plots of the results as SVG files of their own, for documents and slides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from django.template.loader import render_to_string

from experiments.admin.results.cards import MetricCard
from experiments.admin.results.courses import Course
from experiments.admin.results.slices import Slices
from experiments.admin.results.variant_rows import VariantRow
from experiments.stats.charts import IntervalPlot

Kind = Literal["intervals", "breakdown", "days", "ages"]
KINDS: Sequence[Kind] = ("intervals", "breakdown", "days", "ages")
_TEMPLATE = "admin/experiments/experiment/plot.svg"
_TOP = 64
_ROW, _FOOT = 40, 40
_COURSE = 200


@dataclass(frozen=True, slots=True)
class Place:
    """One part of a plot, with its distance from the top. `label` is above a part that belongs to others."""

    top: int
    part: Any
    label: str = ""


def file_name(experiment: str, metric: str, kind: Kind) -> str:
    return f"{experiment}-{metric}-{kind}.svg"


def draw(card: MetricCard, kind: Kind, *, title: str, note: str) -> str | None:
    """Return a plot of a metric as an SVG document, or None if there is nothing to draw."""
    shared = {"card": card, "title": title, "note": note}
    match kind:
        case "intervals":
            return _draw_intervals([("", row) for row in card.rows], card.plot, shared)
        case "breakdown":
            return _draw_slices(card.slices, shared) if card.slices else None
        case "days":
            return _draw_course(card.days, shared) if card.days else None
        case "ages":
            return _draw_course(card.ages, shared) if card.ages else None


def _draw_slices(slices: Slices, shared: dict[str, Any]) -> str | None:
    rows = [(group.label, row) for group in slices.groups for row in group.rows]
    return _draw_intervals(rows, slices.plot, {**shared, "title": f"{shared['title']} by {slices.attribute}"})


def _draw_intervals(rows: Sequence[tuple[str, VariantRow]], plot: IntervalPlot, shared: dict[str, Any]) -> str | None:
    if not plot.is_drawn:
        return None
    places = [Place(_TOP + index * _ROW, row, label) for index, (label, row) in enumerate(rows)]
    bottom = _TOP + len(places) * _ROW
    values = {"rows": places, "plot": plot, "bottom": bottom, "height": bottom + _FOOT}
    return render_to_string(_TEMPLATE, {**shared, **values})


def _draw_course(course: Course, shared: dict[str, Any]) -> str:
    figures = [Place(_TOP + index * _COURSE, figure) for index, figure in enumerate(course.figures)]
    bottom = _TOP + len(figures) * _COURSE
    values = {"course": course, "figures": figures, "bottom": bottom, "height": bottom + _FOOT}
    return render_to_string(_TEMPLATE, {**shared, **values})
