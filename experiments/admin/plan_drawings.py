"""The charts of the planner as SVG files of their own, for documents and slides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from django.template.loader import render_to_string
from django.utils.dateformat import format as date_format

from experiments.admin.planner_panel import DaysChart, Panel, UsersChart
from experiments.stats.charts import Tick

Kind = Literal["users", "days"]
KINDS: Sequence[Kind] = ("users", "days")


def draw(panel: Panel, kind: Kind) -> str | None:
    """Return a chart of a plan as an SVG document, or None if there is nothing to draw."""
    chart = panel.by_users if kind == "users" else panel.by_days
    if chart is None:
        return None
    ends = _ends(chart) if isinstance(chart, DaysChart) else chart.ticks
    by = "users in each variant" if isinstance(chart, UsersChart) else "day"
    shared: dict[str, Any] = {"panel": panel, "chart": chart, "curve": chart.curve}
    return render_to_string("admin/experiments/plan.svg", {**shared, "ends": ends, "kind": kind, "by": by})


def _ends(chart: DaysChart) -> list[Tick]:
    days = [chart.days[0].day, chart.days[-1].day]
    return [Tick(date_format(day, "j M Y"), at) for day, at in zip(days, (0.0, 100.0), strict=True)]
