"""The plots of the results as SVG files of their own, for documents and slides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from django.template.loader import render_to_string

from experiments.admin.results.cards import MetricCard
from experiments.admin.results.courses import Course

Kind = Literal["intervals", "days", "ages"]
KINDS: Sequence[Kind] = ("intervals", "days", "ages")
_TEMPLATE = "admin/experiments/experiment/plot.svg"
_TOP = 64
_ROW, _FOOT = 40, 40
_COURSE = 200


@dataclass(frozen=True, slots=True)
class Place:
    """One part of a plot, with its distance from the top."""

    top: int
    part: Any


def file_name(experiment: str, metric: str, kind: Kind) -> str:
    return f"{experiment}-{metric}-{kind}.svg"


def draw(card: MetricCard, kind: Kind, *, title: str, note: str) -> str | None:
    """Return a plot of a metric as an SVG document, or None if there is nothing to draw."""
    course = {"days": card.days, "ages": card.ages, "intervals": None}[kind]
    shared = {"card": card, "title": title, "note": note}
    if kind == "intervals":
        return _draw_intervals(card, shared) if card.plot.is_drawn else None
    return _draw_course(course, shared) if course else None


def _draw_intervals(card: MetricCard, shared: dict[str, Any]) -> str:
    rows = [Place(_TOP + index * _ROW, row) for index, row in enumerate(card.rows)]
    bottom = _TOP + len(rows) * _ROW
    return render_to_string(_TEMPLATE, {**shared, "rows": rows, "bottom": bottom, "height": bottom + _FOOT})


def _draw_course(course: Course, shared: dict[str, Any]) -> str:
    figures = [Place(_TOP + index * _COURSE, figure) for index, figure in enumerate(course.figures)]
    bottom = _TOP + len(figures) * _COURSE
    values = {"course": course, "figures": figures, "bottom": bottom, "height": bottom + _FOOT}
    return render_to_string(_TEMPLATE, {**shared, **values})
