"""How a flag is used: its evaluations of the last 30 days as numbers and bars, and its experiments."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.dispatch import Signal
from django.http import HttpRequest
from django.utils.dateformat import format as date_format
from django.utils.safestring import SafeString

from config.admin.columns import time_cell
from config.models import Environment
from flags.models import Flag
from flags.usage.series import Interval, Outcome, UsageSeries, read_usage
from flags.usage.staleness import STALE_AFTER, stale_reasons

DAY = timedelta(days=1)
HEIGHT = 48
_MAX_TONES = 4
_TONE_OF_REST = "rest"

asking_for_uses = Signal()
"""Sent with `request` and the `key` of a flag, because `flags` does not know experiments.

Receivers return a `FlagUse` for each of their objects that uses the flag in the current environment, newest first.
"""


@dataclass(frozen=True, slots=True)
class Row:
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
    """The part of an outcome in the bar of a day."""

    top: float
    height: float
    tone: str


@dataclass(frozen=True, slots=True)
class Day:
    """The bar of a day. `title` is its tooltip."""

    title: str
    parts: Sequence[Part]


@dataclass(frozen=True, slots=True)
class Panel:
    """The usage of a flag in one environment in the last 30 days."""

    rows: Sequence[Row]
    days: Sequence[Day]
    total: str
    busiest: str
    first_day: datetime
    last_use: SafeString | None
    advice: Sequence[str]


def usage_panel(flag: Flag, environment: Environment, now: datetime) -> Panel:
    """Return the usage of a flag that was read `with_stale_reasons`."""
    usage = read_usage(flag, environment, start=now - STALE_AFTER, end=now, interval=Interval.DAY)
    rows = [Row(outcome, tone) for outcome, tone in zip(usage.outcomes, _tones(usage.outcomes), strict=True)]
    first = (now - STALE_AFTER).astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    most = max((sum(counts.values()) for counts in usage.series.values()), default=0)
    days = [first + number * DAY for number in range(STALE_AFTER.days + 1)]
    return Panel(
        rows=rows,
        days=[_day(day, usage, rows, most) for day in days],
        total=f"{usage.total:,}",
        busiest=f"{most:,}",
        first_day=first,
        last_use=time_cell(usage.last_hour),
        advice=[f"{reason.meaning} {reason.remedy}" for reason in stale_reasons(flag)],
    )


def _tones(outcomes: Sequence[Outcome]) -> list[str]:
    """Return a colour for each outcome. Only the first variants have their own."""
    keys = [outcome.key for outcome in outcomes]
    if {*keys} <= {"on", "off"}:
        return keys
    return [str(index) if index < _MAX_TONES else _TONE_OF_REST for index in range(len(outcomes))]


def _day(day: datetime, usage: UsageSeries, rows: Sequence[Row], most: int) -> Day:
    counts = usage.series.get(day, {})
    parts, top = [], float(HEIGHT)
    for row in rows:
        if count := counts.get(row.outcome.key, 0):
            height = HEIGHT * count / most
            top -= height
            parts.append(Part(round(top, 2), round(height, 2), row.tone))
    text = ", ".join(f"{row.outcome.key} {counts[row.outcome.key]:,}" for row in rows if row.outcome.key in counts)
    return Day(f"{date_format(day, 'j M Y')}: {text or 'not evaluated'}", parts)


# --- experiments -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FlagUse:
    """An experiment that uses a flag: its key, its address, and its state in words."""

    key: str
    address: str
    words: str


def uses_of_flag(request: HttpRequest, key: str) -> Sequence[FlagUse]:
    answers: Iterable[tuple[object, Any]] = asking_for_uses.send(sender=Flag, request=request, key=key)
    return [use for _, answer in answers for use in answer]
