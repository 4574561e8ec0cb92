"""A plan as people look at it: in words, in two cards, and in curves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from django.utils.dateformat import format as date_format

from experiments.admin.words import NO_FIGURE, number
from experiments.admin.words import percent as exact_percent
from experiments.planner.curve import Curve, Point, draw, points_over_users, users_shown
from experiments.planner.forecast import DetectableDay
from experiments.planner.history import History
from experiments.planner.plan import Plan, Size
from experiments.planner.question import Assumptions, Kind
from experiments.stats.charts import Scale, Tick


@dataclass(frozen=True, slots=True)
class Answer:
    """What one test takes. `headline` is what one wants to know first."""

    headline: str
    users: str
    per_variant: str


@dataclass(frozen=True, slots=True)
class UsersChart:
    """The smallest effect over the users per variant, with the places of those that were planned."""

    curve: Curve
    ticks: Sequence[Tick]
    fixed_horizon_at: float
    always_valid_at: float


@dataclass(frozen=True, slots=True)
class ToldDay:
    """A day of a running experiment: what it can find by its end."""

    day: date
    users: str
    fixed_horizon: str
    always_valid: str
    is_forecast: bool


@dataclass(frozen=True, slots=True)
class DaysChart:
    """The same over the days of a running experiment. `today` is where the forecast begins; None without one."""

    curve: Curve
    days: Sequence[ToldDay]
    today: float | None


@dataclass(frozen=True, slots=True)
class Panel:
    """What the page shows."""

    question: str
    fixed_horizon: Answer
    always_valid: Answer
    known: str | None
    by_users: UsersChart
    by_days: DaysChart | None


def percent(share: float) -> str:
    """As in results, without zeros that say nothing: `5 %`, `10.5 %`."""
    digits = exact_percent(share).removesuffix(" %")
    return f"{digits.rstrip('0').rstrip('.') if '.' in digits else digits} %"


def panel_of(plan: Plan) -> Panel:
    assumed = plan.assumptions
    return Panel(
        question=_question(assumed),
        fixed_horizon=_answer(plan.fixed_horizon, assumed),
        always_valid=_answer(plan.always_valid, assumed),
        known=None if plan.history is None else _known(plan.history, assumed),
        by_users=_by_users(plan),
        by_days=_by_days(plan.detectable, assumed) if plan.detectable else None,
    )


def _question(assumed: Assumptions) -> str:
    """Such as: a rise by 5 %, from 10 % to 10.5 %."""
    write = percent if assumed.kind is Kind.RATE else number
    after = assumed.baseline * (1 + assumed.mde)
    direction = "rise" if assumed.mde > 0 else "fall"
    return f"a {direction} by {percent(abs(assumed.mde))}, from {write(assumed.baseline)} to {write(after)}"


def _answer(size: Size, assumed: Assumptions) -> Answer:
    users = f"{size.users:,} users"
    days = None if size.days is None else f"{size.days:,} day{'' if size.days == 1 else 's'}"
    each = "each" if assumed.are_alike else "the smallest"
    return Answer(
        days or users, users if days else "", f"{size.users_per_variant:,} in {each} of {assumed.variants} variants"
    )


def _known(history: History, assumed: Assumptions) -> str:
    """Such as: From checkout, 31 Jan 2026 to 5 Feb 2026: 100 users, 20 a day; of the control 20 %."""
    where, of_whom = (
        ("all users", "of these") if history.experiment is None else (history.experiment.key, "of the control")
    )
    period = f"{date_format(history.start, 'j M Y')} to {date_format(history.end, 'j M Y')}"
    pace = history.users_per_day
    users = f"{history.users:,} users, {number(round(pace) if pace >= 10 else pace)} a day"
    if history.baseline is None:
        return f"From {where}, {period}: {users}."
    value = percent(history.baseline) if assumed.kind is Kind.RATE else number(history.baseline)
    deviation = history.standard_deviation
    spread = "" if deviation is None else f", standard deviation {number(deviation)}"
    return f"From {where}, {period}: {users}; {of_whom} {value}{spread}."


def _by_users(plan: Plan) -> UsersChart:
    most = users_shown(plan.always_valid.users_per_variant)
    scale = Scale(0.0, most)
    curve = draw(points_over_users(plan.baseline, plan.demands, most), plan.assumptions.mde, percent)
    return UsersChart(
        curve,
        [Tick(f"{users:,.0f}", scale.at(users)) for users in scale.ticks()],
        scale.at(plan.fixed_horizon.users_per_variant),
        scale.at(plan.always_valid.users_per_variant),
    )


def _by_days(days: Sequence[DetectableDay], assumed: Assumptions) -> DaysChart:
    last = max(1, len(days) - 1)
    points = [Point(100 * at / last, day.fixed_horizon, day.always_valid) for at, day in enumerate(days)]
    past = sum(not day.is_forecast for day in days)
    return DaysChart(
        draw(points, assumed.mde, percent),
        [_told(day) for day in days],
        round(100 * (past - 1) / last, 2) if past < len(days) else None,
    )


def _told(day: DetectableDay) -> ToldDay:
    fixed_horizon, always_valid = (
        NO_FIGURE if effect is None else percent(effect) for effect in (day.fixed_horizon, day.always_valid)
    )
    return ToldDay(day.day, f"{day.users:,}", fixed_horizon, always_valid, day.is_forecast)
