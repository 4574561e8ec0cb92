"""The number of events in each hour, as the bars of a chart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import groupby
from zoneinfo import ZoneInfo

from django.utils.dateformat import format as date_format

from config.models import Environment
from events.counts.intervals import Interval, intervals
from events.counts.queries import CountSeries, count_events
from events.counts.storage import start_of

HEIGHT = 64
_UTC = ZoneInfo("UTC")
_HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Bar:
    """One hour. `is_midnight` begins a day."""

    start: datetime
    count: int
    top: float
    height: float

    @property
    def title(self) -> str:
        return f"{date_format(self.start, 'j M Y, H:i')} UTC: {self.count:,}"

    @property
    def is_midnight(self) -> bool:
        return self.start.hour == 0


@dataclass(frozen=True, slots=True)
class DayTotal:
    """The number of events of a day, or of the part of it that the chart shows."""

    start: datetime
    count: str
    is_whole: bool


@dataclass(frozen=True, slots=True)
class HourlyChart:
    """The bars of consecutive hours, the last of which is the current one, and the most frequent names with counts."""

    bars: Sequence[Bar]
    total: str
    busiest: str
    names: Sequence[tuple[str, str]]
    others: int

    @property
    def width(self) -> int:
        return 10 * len(self.bars)

    @property
    def days(self) -> Sequence[DayTotal]:
        """Return the sums by day of UTC, the newest first."""
        by_day = [list(bars) for _, bars in groupby(self.bars, key=lambda bar: bar.start.date())]
        return [
            DayTotal(bars[0].start, f"{sum(bar.count for bar in bars):,}", len(bars) == 24) for bars in by_day[::-1]
        ]


def read_hourly_chart(
    environment: Environment, now: datetime, span: timedelta, *, name: str | None = None, max_names: int = 0
) -> HourlyChart:
    """Return the chart of all events, or of those of one name, with one query of the stored counts."""
    shown = intervals(Interval.HOUR, _UTC, now - span + _HOUR, now)
    counts = count_events(environment, shown, name=name)
    numbers = [occurrences.total for occurrences in counts.series]
    busiest = max(numbers)
    bars = [_bar(start_of(quarter), number, busiest) for quarter, number in zip(shown.starts, numbers, strict=True)]
    return HourlyChart(bars, f"{counts.overall.total:,}", f"{busiest:,}", *_names(counts, max_names))


def _names(counts: CountSeries, max_names: int) -> tuple[list[tuple[str, str]], int]:
    by_name = list(counts.overall.by_name.items())
    return [(name, f"{count:,}") for name, count in by_name[:max_names]], max(0, len(by_name) - max_names)


def _bar(start: datetime, count: int, busiest: int) -> Bar:
    height = HEIGHT * count / busiest if busiest else 0
    # Any event at all is visible.
    height = max(height, 1.0) if count else 0
    return Bar(start.astimezone(UTC), count, round(HEIGHT - height, 2), round(height, 2))
