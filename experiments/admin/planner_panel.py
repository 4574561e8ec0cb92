"""A plan in words, cards and charts for the page of the planner, and its charts as SVG files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Literal

from django.template.loader import render_to_string
from django.utils.dateformat import format as date_format

from experiments.planner.forecast import Curve, DetectableDay, Point, draw, points_over_users, users_shown
from experiments.planner.history import History
from experiments.planner.plan import Plan
from experiments.planner.question import Assumptions, BaselineKind
from experiments.planner.sizes import GuardrailPlan, Size
from experiments.planner.words import describe_days, describe_effect, percent
from experiments.stats.charts import Scale, Tick
from experiments.stats.numbers import NO_FIGURE, format_number


@dataclass(frozen=True, slots=True)
class Answer:
    """The users and days that one test needs. `headline` is the days, or the users if the days are not known."""

    headline: str
    users: str
    per_variant: str


@dataclass(frozen=True, slots=True)
class UsersChart:
    """The smallest detectable effect by users of all variants, with marks at the planned users."""

    curve: Curve
    ticks: Sequence[Tick]
    fixed_horizon_at: float
    always_valid_at: float
    is_drawn: bool = True


@dataclass(frozen=True, slots=True)
class DayRow:
    """A day of a running experiment, and the smallest effect that is detectable at its end."""

    day: date
    users: str
    fixed_horizon: str
    always_valid: str
    is_forecast: bool


@dataclass(frozen=True, slots=True)
class DaysChart:
    """The smallest detectable effect by day. `today` is where the forecast begins; None without a forecast."""

    curve: Curve
    days: Sequence[DayRow]
    today: float | None


@dataclass(frozen=True, slots=True)
class GuardrailRow:
    """A guardrail, and the users that each test needs to show it safe."""

    metric: str
    margin: str
    always_valid: str
    fixed_horizon: str


@dataclass(frozen=True, slots=True)
class PlanPanel:
    """What the page shows of a plan. `history` names the past data, and `notes` further assumptions."""

    question: str
    fixed_horizon: Answer
    always_valid: Answer
    history: str | None
    notes: Sequence[str]
    guardrails: Sequence[GuardrailRow]
    by_users: UsersChart
    by_days: DaysChart | None


def build_panel(plan: Plan) -> PlanPanel:
    assumed = plan.assumptions
    return PlanPanel(
        question=describe_effect(assumed),
        fixed_horizon=_answer(plan.fixed_horizon, assumed),
        always_valid=_answer(plan.always_valid, assumed),
        history=None if plan.history is None else _describe_history(plan.history, assumed),
        notes=list(_notes(plan)),
        guardrails=[_guardrail_row(guardrail) for guardrail in plan.guardrails],
        by_users=_by_users(plan),
        by_days=_by_days(plan.detectable, assumed) if plan.detectable else None,
    )


def _answer(size: Size, assumed: Assumptions) -> Answer:
    users = f"{size.users:,} users"
    days = None if size.days is None else describe_days(size.days)
    which = "each" if assumed.are_alike else "the smallest"
    return Answer(
        headline=days or users,
        users=users if days else "",
        per_variant=f"{size.users_per_variant:,} in {which} of {assumed.variants} variants",
    )


def _describe_history(history: History, assumed: Assumptions) -> str:
    """Return `Based on checkout, 31 Jan 2026 to 5 Feb 2026: 100 users, 20 a day.`, or more."""
    is_experiment = history.experiment is not None
    source = history.experiment.key if history.experiment else "all users"
    period = f"{date_format(history.start, 'j M Y')} to {date_format(history.end, 'j M Y')}"
    pace = history.users_per_day
    users = f"{history.users:,} users, {format_number(round(pace) if pace >= 10 else pace)} a day"
    if history.baseline is None:
        return f"Based on {source}, {period}: {users}."
    value = percent(history.baseline) if assumed.kind is BaselineKind.RATE else format_number(history.baseline)
    deviation = history.standard_deviation
    spread = "" if deviation is None else f", standard deviation {format_number(deviation)}"
    whose = "the control has" if is_experiment else "their baseline is"
    return f"Based on {source}, {period}: {users}; {whose} {value}{spread}."


def _notes(plan: Plan) -> Iterator[str]:
    assumed = plan.assumptions
    if plan.with_window is not None:
        yield describe_saving(plan.with_window)
    if assumed.variance_reduction:
        yield f"CUPED is expected to remove {percent(assumed.variance_reduction)} of the variance."
    if assumed.maturity_days and assumed.users_per_day:
        days = f"{assumed.maturity_days} day{'' if assumed.maturity_days == 1 else 's'}"
        yield f"The days include {days} at the end, until the windows of the last users are over."


def describe_saving(with_window: Size) -> str:
    """Say what a window would save."""
    return (
        f"With a window, the always-valid test would need {with_window.users:,} users: without one, users go on to "
        "gain events, and the plan sets no boundary."
    )


def _guardrail_row(guardrail: GuardrailPlan) -> GuardrailRow:
    tolerance = guardrail.tolerance
    margin = f"{tolerance.absolute:g}" if tolerance.relative is None else percent(tolerance.relative)
    sizes = (
        "no past data" if guardrail.baseline is None else "too many" if size is None else f"{size.users:,} users"
        for size in (guardrail.always_valid, guardrail.fixed_horizon)
    )
    return GuardrailRow(guardrail.definition.key, margin, *sizes)


def _by_users(plan: Plan) -> UsersChart:
    most = users_shown(plan.always_valid.users)
    scale = Scale(0.0, most)
    curve = draw(points_over_users(plan.baseline, plan.demands, plan.shares, most), plan.assumptions.mde, percent)
    return UsersChart(
        curve,
        [Tick(f"{users:,.0f}", scale.position_of(users)) for users in scale.ticks()],
        scale.position_of(plan.fixed_horizon.users),
        scale.position_of(plan.always_valid.users),
    )


def _by_days(days: Sequence[DetectableDay], assumed: Assumptions) -> DaysChart:
    last = max(1, len(days) - 1)
    points = [Point(100 * index / last, day.fixed_horizon, day.always_valid) for index, day in enumerate(days)]
    past = sum(not day.is_forecast for day in days)
    return DaysChart(
        draw(points, assumed.mde, percent),
        [_day_row(day) for day in days],
        round(100 * (past - 1) / last, 2) if past < len(days) else None,
    )


def _day_row(day: DetectableDay) -> DayRow:
    fixed_horizon, always_valid = (
        NO_FIGURE if effect is None else percent(effect) for effect in (day.fixed_horizon, day.always_valid)
    )
    return DayRow(day.day, f"{day.users:,}", fixed_horizon, always_valid, day.is_forecast)


ChartKind = Literal["users", "days"]
CHART_KINDS: Sequence[ChartKind] = ("users", "days")


def draw_chart(panel: PlanPanel, kind: ChartKind) -> str | None:
    """Return a chart of a plan as an SVG document; None if there is nothing to draw."""
    chart = panel.by_users if kind == "users" else panel.by_days
    if chart is None:
        return None
    ends = _ends(chart) if isinstance(chart, DaysChart) else chart.ticks
    by = "users of all variants" if isinstance(chart, UsersChart) else "day"
    shared: dict[str, Any] = {"panel": panel, "chart": chart, "curve": chart.curve}
    return render_to_string("admin/experiments/plan.svg", {**shared, "ends": ends, "kind": kind, "by": by})


def _ends(chart: DaysChart) -> list[Tick]:
    days = [chart.days[0].day, chart.days[-1].day]
    return [Tick(date_format(day, "j M Y"), position) for day, position in zip(days, (0.0, 100.0), strict=True)]
