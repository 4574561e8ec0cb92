"""The hours and days of a time zone, in quarters of an hour: all clocks have differed by whole quarters since 1980."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from functools import cache
from itertools import pairwise
from zoneinfo import ZoneInfo, available_timezones

from events.counts.storage import QUARTER, quarter_of, start_of

MAX_INTERVALS = 1000
"""In one series."""
_A_DAY = timedelta(days=1) // QUARTER
_AN_HOUR = timedelta(hours=1) // QUARTER


class Interval(StrEnum):
    """The step of a series."""

    HOUR = "hour"
    DAY = "day"


@dataclass(frozen=True, slots=True)
class Run:
    """Consecutive intervals of the same length: the index of the first, its quarter, and the length in quarters."""

    index: int
    start: int
    length: int


@dataclass(frozen=True, slots=True)
class Intervals:
    """Consecutive whole intervals: the first quarter of each, and the quarter after the last interval."""

    starts: list[int]
    end: int

    @property
    def runs(self) -> list[Run]:
        lengths = [after - start for start, after in pairwise([*self.starts, self.end])]
        return [
            Run(index, self.starts[index], length)
            for index, length in enumerate(lengths)
            if index == 0 or length != lengths[index - 1]
        ]


@cache
def zone_names() -> frozenset[str]:
    """Return the names of the IANA time zone database."""
    return frozenset(available_timezones() - {"Factory", "localtime"})


def intervals(interval: Interval, zone: ZoneInfo, first: datetime, last: datetime) -> Intervals:
    """Return the intervals from the one that contains `first` to the one that contains `last`.

    A day is a date of the local calendar, however long. A date that the zone skipped has no interval. An hour is one of
    the local clock, so the hour that is repeated in autumn appears twice.
    """
    earliest, latest = quarter_of(first), quarter_of(last)
    # Three days more on both sides, so that the first and the last interval are whole.
    starts = list(_starts(interval, _offsets(zone, earliest - 3 * _A_DAY, latest + 3 * _A_DAY)))
    begin, end = bisect_right(starts, earliest) - 1, bisect_right(starts, latest)
    return Intervals(starts[begin:end], starts[end])


def _starts(interval: Interval, offsets: list[tuple[int, int]]) -> Iterator[int]:
    size = _A_DAY if interval is Interval.DAY else _AN_HOUR
    newest = (-1, -1)
    for (start, offset), (end, _) in pairwise(offsets):
        for quarter in (start, *range(start - (start + offset) % size + size, end, size)):
            # After a change of clocks, an hour is a new one, but a day goes on until the calendar has a new date.
            local = (0 if interval is Interval.DAY else start, (quarter + offset) // size)
            if local > newest:
                newest = local
                yield quarter


def _offsets(zone: ZoneInfo, start: int, end: int) -> list[tuple[int, int]]:
    """Return pairs of a quarter and the offset from UTC, in quarters, since then. The last pair is the end."""
    offsets = [(start, _offset(zone, start))]
    for day in range(start + _A_DAY, end + _A_DAY, _A_DAY):
        before = offsets[-1][1]
        if _offset(zone, day) != before:  # search for the change: no zone has two within a day
            quarters = range(day - _A_DAY, day)
            change = quarters.start + bisect_left(quarters, True, key=lambda quarter: _offset(zone, quarter) != before)
            offsets.append((change, _offset(zone, change)))
    return [*offsets, (end, 0)]


def _offset(zone: ZoneInfo, quarter: int) -> int:
    """Return the offset from UTC at the end of a quarter: some zones changed clocks a minute after its start."""
    ahead = (start_of(quarter + 1) - timedelta(seconds=1)).astimezone(zone).utcoffset()
    return (ahead or timedelta()) // QUARTER
