"""The hours and days of a time zone, in quarters of an hour: all clocks have been whole quarters
apart since 1980.

Not here: what happened in them (`count_queries`).
"""

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

MOST_INTERVALS = 1000
"""As many as one series has."""
_A_DAY = timedelta(days=1) // QUARTER
_AN_HOUR = timedelta(hours=1) // QUARTER


class Interval(StrEnum):
    """What a series is in steps of."""

    HOUR = "hour"
    DAY = "day"


@dataclass(frozen=True, slots=True)
class Run:
    """Intervals of the same length that follow each other: the index of the first, its quarter, and
    the length.
    """

    index: int
    start: int
    length: int


@dataclass(frozen=True, slots=True)
class Intervals:
    """Whole intervals that follow each other: the quarter that each begins with, and the one after
    the last.
    """

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
    """The names of the IANA time zone database, as they are written there."""
    return frozenset(available_timezones() - {"Factory", "localtime"})


def intervals(interval: Interval, zone: ZoneInfo, first: datetime, last: datetime) -> Intervals:
    """From the interval that holds the one moment to the interval that holds the other.

    A day is a date of the local calendar, however long it is, and a date that was left out is none.
    An hour is one of the local clock: the one that is repeated in autumn stands there twice.
    """
    earliest, latest = quarter_of(first), quarter_of(last)
    # From so far before that the first interval is whole, to so far behind that the last one is.
    starts = list(_starts(interval, _offsets(zone, earliest - 3 * _A_DAY, latest + 3 * _A_DAY)))
    begin, end = bisect_right(starts, earliest) - 1, bisect_right(starts, latest)
    return Intervals(starts[begin:end], starts[end])


def _starts(interval: Interval, offsets: list[tuple[int, int]]) -> Iterator[int]:
    size = _A_DAY if interval is Interval.DAY else _AN_HOUR
    newest = (-1, -1)
    for (start, offset), (end, _) in pairwise(offsets):
        for at in (start, *range(start - (start + offset) % size + size, end, size)):
            # An hour of other clocks is another hour; a day goes on, until the calendar has a new
            # one.
            local = (0 if interval is Interval.DAY else start, (at + offset) // size)
            if local > newest:
                newest = local
                yield at


def _offsets(zone: ZoneInfo, start: int, end: int) -> list[tuple[int, int]]:
    """From which quarter on local clocks are ahead of UTC by how many, and at last where that ends."""
    offsets = [(start, _offset(zone, start))]
    for day in range(start + _A_DAY, end + _A_DAY, _A_DAY):
        before = offsets[-1][1]
        if _offset(zone, day) != before:  # since when? No zone changes its clocks twice within a day
            quarters = range(day - _A_DAY, day)
            change = quarters.start + bisect_left(quarters, True, key=lambda at: _offset(zone, at) != before)
            offsets.append((change, _offset(zone, change)))
    return [*offsets, (end, 0)]


def _offset(zone: ZoneInfo, quarter: int) -> int:
    """By how many quarters local clocks are ahead at its end: some zones changed them a minute past
    the quarter.
    """
    ahead = (start_of(quarter + 1) - timedelta(seconds=1)).astimezone(zone).utcoffset()
    return (ahead or timedelta()) // QUARTER
