"""The usage of a flag as people look at it: a month in numbers, shares and bars, and in words what makes it stale."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.utils.dateformat import format as date_format
from django.utils.safestring import SafeString

from config.admin.site import moment
from config.models import Environment
from flags.models import Flag
from flags.usage.figures import Figures, Interval, Outcome, usage_of
from flags.usage.staleness import A_WHILE, StaleReason, stale_reasons

DAY = timedelta(days=1)
HEIGHT = 48
_MOST_TONES = 4
_TONE_OF_REST = "rest"


@dataclass(frozen=True, slots=True)
class Row:
    """One outcome. `tone` is the colour that stands for it."""

    outcome: Outcome
    tone: str

    @property
    def count(self) -> str:
        return f"{self.outcome.count:,}"

    @property
    def share(self) -> str:
        percent = 100 * self.outcome.share
        if percent < 1:
            return "< 1 %"
        return "> 99 %" if 99 < percent < 100 else f"{percent:.0f} %"


@dataclass(frozen=True, slots=True)
class Part:
    """The piece of a day's bar that one outcome is."""

    top: float
    height: float
    tone: str


@dataclass(frozen=True, slots=True)
class Day:
    """The bar of a day, with what it says when it is pointed at."""

    title: str
    parts: Sequence[Part]


@dataclass(frozen=True, slots=True)
class Panel:
    """What a page shows of the usage of a flag in one environment, in the last 30 days."""

    rows: Sequence[Row]
    days: Sequence[Day]
    total: str
    busiest: str
    first_day: datetime
    last_use: SafeString | None
    advice: Sequence[str]


def usage_panel(flag: Flag, environment: Environment, now: datetime) -> Panel:
    """Of a flag that was read `with_stale_reasons`."""
    figures = usage_of(flag, environment, start=now - A_WHILE, end=now, interval=Interval.DAY)
    rows = [Row(each, tone) for each, tone in zip(figures.outcomes, _tones(figures.outcomes), strict=True)]
    first = (now - A_WHILE).astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    most = max((sum(counts.values()) for counts in figures.series.values()), default=0)
    days = [first + at * DAY for at in range(A_WHILE.days + 1)]
    return Panel(
        rows=rows,
        days=[_day(day, figures, rows, most) for day in days],
        total=f"{figures.total:,}",
        busiest=f"{most:,}",
        first_day=first,
        last_use=moment(figures.last_hour),
        advice=[_advice(reason, flag, figures) for reason in stale_reasons(flag)],
    )


def _tones(outcomes: Sequence[Outcome]) -> list[str]:
    """On and off have colours of their own; variants get one each, as far as there are any that can be told apart."""
    if {each.key for each in outcomes} <= {"on", "off"}:
        return [each.key for each in outcomes]
    return [str(at) if at < _MOST_TONES else _TONE_OF_REST for at in range(len(outcomes))]


def _day(day: datetime, figures: Figures, rows: Sequence[Row], most: int) -> Day:
    counts = figures.series.get(day, {})
    parts, top = [], float(HEIGHT)
    for row in rows:
        if count := counts.get(row.outcome.key, 0):
            height = HEIGHT * count / most
            top -= height
            parts.append(Part(round(top, 2), round(height, 2), row.tone))
    told = ", ".join(f"{row.outcome.key} {counts[row.outcome.key]:,}" for row in rows if row.outcome.key in counts)
    return Day(f"{date_format(day, 'j M Y')}: {told or 'not evaluated'}", parts)


def _advice(reason: StaleReason, flag: Flag, figures: Figures) -> str:
    """What it means, and what to do about it."""
    if reason is StaleReason.EXPIRED:
        assert flag.expires_at is not None  # noqa: S101 (that is what has passed)
        day = date_format(flag.expires_at.astimezone(UTC), "j M Y")
        return f"Expired on {day}: take it out of the code, then archive it."
    if reason is StaleReason.NOT_EVALUATED:
        return "Not evaluated here for 30 days: where no code asks for it any more, archive it."
    outcome = figures.outcomes[0].key if figures.outcomes else "the same"
    return f"Unchanged here for 30 days, and {outcome} for everyone: make that the code's own way, then archive it."
