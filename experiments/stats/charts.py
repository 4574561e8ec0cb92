"""The geometry of charts, from the numbers alone. Templates choose colours and fonts.

Positions are percentages of a drawing, from its left or its top edge. So a drawing can be as wide as the page allows
while its text keeps its size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

_TIMES_THE_NARROWEST = 5.0
_MARGIN = 0.06
_ROOM_FOR_EARLIER_DAYS = 0.5  # above and below the room that the latest day needs
_TINY = 1e-200  # numbers closer together than this share one position, and have no step between ticks
_MIN_TICKS = 3
_MIN_IN_A_COLUMN = 2  # the column of a table is narrow
_STEPS = (5.0, 2.0, 1.0)


@dataclass(frozen=True, slots=True)
class Range:
    """An estimate within an interval. A side without a bound is None.

    `mark` is a value to compare the interval with, such as the margin of a guardrail.
    """

    lower: float | None
    estimate: float
    upper: float | None
    mark: float | None = None

    @property
    def needed(self) -> list[float]:
        """Return the values that every drawing shows."""
        return [self.estimate] if self.mark is None else [self.estimate, self.mark]

    @property
    def reach(self) -> float:
        """Return the distance of the farthest end from zero."""
        return max(abs(value) for value in (self.lower, self.estimate, self.upper) if value is not None)


@dataclass(frozen=True, slots=True)
class Scale:
    """The range of numbers that a drawing shows. It always includes zero."""

    low: float
    high: float

    def position_of(self, value: float) -> float:
        """Return the position of a number: 0 for the lowest, 100 for the highest, and never outside."""
        share = (value - self.low) / (self.high - self.low)
        return round(100 * min(1.0, max(0.0, share)), 2)

    def ticks(self, fewest: int = _MIN_TICKS) -> list[float]:
        """Return round numbers on the scale, zero among them, at steps of 1, 2 or 5 times a power of 10.

        There are three to seven of them, or two to five with `fewest` 2, for narrow drawings.
        """
        size = 10.0 ** math.floor(math.log10(self.high - self.low))
        candidates = (self._multiples(step * power) for power in (size, size / 10) for step in _STEPS)
        return next(multiples for multiples in candidates if len(multiples) >= fewest)

    def _multiples(self, step: float) -> list[float]:
        # Reach slightly beyond the ends: a step such as 0.1 is not represented exactly.
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [number * step for number in range(first, last + 1)]


def scale_for(ranges: Sequence[Range | None], *, least: float = -math.inf) -> Scale:
    """Return a scale that shows zero, every estimate and mark, and as much of every interval as is legible.

    The interval of a few users may be a hundred times as wide as the others, so intervals are cut at five times the
    reach of the narrowest. An open side ends at the edge, which is not below `least`.
    """
    intervals = [interval for interval in ranges if interval is not None]
    if not intervals:
        return Scale(-1.0, 1.0)
    needed = [0.0, *(value for interval in intervals for value in interval.needed)]
    limit = max(_TIMES_THE_NARROWEST * min(interval.reach for interval in intervals), *map(abs, needed))
    lowest = [_or_edge(interval.lower, max(-limit, least)) for interval in intervals]
    highest = [_or_edge(interval.upper, limit) for interval in intervals]
    low, high = min(*needed, max(-limit, min(lowest))), max(*needed, min(limit, max(highest)))
    return _with_room(low, high, _MARGIN, least)


def _or_edge(bound: float | None, edge: float) -> float:
    return edge if bound is None else bound


def _with_room(low: float, high: float, share: float, least: float) -> Scale:
    """Return a scale from `low` to `high`, widened at both ends by a share of its range.

    Below `least`, there is only a margin unless there is something to show.
    """
    if high - low < _TINY:
        return Scale(-1.0, 1.0)
    room, floor = share * (high - low), least - _MARGIN * (high - low)
    return Scale(low - room if low < floor else max(low - room, floor), high + room)


@dataclass(frozen=True, slots=True)
class Tick:
    """A number beside a chart."""

    label: str
    position: float


@dataclass(frozen=True, slots=True)
class Bar:
    """An interval as a line from `start` that is `length` long, with its estimate as a point.

    An end is cut if the interval goes on beyond the drawing, and open if it has no end.
    """

    start: float
    length: float
    point: float
    is_cut_below: bool
    is_cut_above: bool
    is_open_below: bool = False
    is_open_above: bool = False
    mark: float | None = None

    @property
    def end(self) -> float:
        return round(self.start + self.length, 2)


@dataclass(frozen=True, slots=True)
class IntervalPlot:
    """Intervals below one another on one scale. A bar is None if there is nothing to draw."""

    zero: float
    ticks: Sequence[Tick]
    bars: Sequence[Bar | None]

    @property
    def is_drawn(self) -> bool:
        """Return whether there is a bar. Without one, the scale means nothing."""
        return any(self.bars)


def plot_intervals(
    ranges: Sequence[Range | None], label: Callable[[float], str], *, least: float = -math.inf
) -> IntervalPlot:
    """Return a bar for each range. `label` formats the numbers below the chart.

    `least` is the lowest number that makes sense, such as a lift of -100 %.
    """
    scale = scale_for(ranges, least=least)
    ticks = [Tick(label(value), scale.position_of(value)) for value in scale.ticks(_MIN_IN_A_COLUMN)]
    return IntervalPlot(
        scale.position_of(0.0), ticks, [None if interval is None else _bar(scale, interval) for interval in ranges]
    )


def _bar(scale: Scale, interval: Range) -> Bar:
    start, end = (
        scale.position_of(_or_edge(interval.lower, scale.low)),
        scale.position_of(_or_edge(interval.upper, scale.high)),
    )
    return Bar(
        start=start,
        length=round(end - start, 2),
        point=scale.position_of(interval.estimate),
        is_cut_below=interval.lower is not None and interval.lower < scale.low,
        is_cut_above=interval.upper is not None and interval.upper > scale.high,
        is_open_below=interval.lower is None,
        is_open_above=interval.upper is None,
        mark=None if interval.mark is None else scale.position_of(interval.mark),
    )


@dataclass(frozen=True, slots=True)
class Series:
    """A quantity from day to day, as SVG paths in a square of 100 by 100, which the page stretches.

    `line` goes through the estimates and `band` covers the intervals. Both break at days without a value. `column` is
    the width of a day.
    """

    line: str
    band: str
    column: float


@dataclass(frozen=True, slots=True)
class SeriesPlot:
    """Series beside one another on one scale, each in its own drawing."""

    zero: float
    ticks: Sequence[Tick]
    series: Sequence[Series]


def plot_series(
    days: Sequence[Sequence[Range | None]],
    label: Callable[[float], str],
    *,
    is_last_best: bool = True,
    least: float = -math.inf,
) -> SeriesPlot:
    """Return a series for each sequence of days. `label` formats the numbers at the side.

    With `is_last_best`, the last day is known best, so the scale is made for it. `least` is as in `plot_intervals`.
    """
    if is_last_best:
        scale = _scale_for_days(days, least)
    else:
        scale = scale_for([interval for series in days for interval in series], least=least)
    ticks = [Tick(label(value), _height(scale, value)) for value in scale.ticks()]
    return SeriesPlot(_height(scale, 0.0), ticks, [_series(scale, series) for series in days])


def _scale_for_days(days: Sequence[Sequence[Range | None]], least: float) -> Scale:
    """Return a scale for the latest day of each series, with room for the wider intervals before it."""
    ranges = [next((interval for interval in reversed(series) if interval), None) for series in days]
    latest = scale_for(ranges, least=least)
    return _with_room(latest.low, latest.high, _ROOM_FOR_EARLIER_DAYS, least)


def _height(scale: Scale, value: float) -> float:
    return round(100 - scale.position_of(value), 2)


def _series(scale: Scale, days: Sequence[Range | None]) -> Series:
    column = 100 / max(1, len(days))
    lines, bands = [], []
    for start, run in _runs(days):
        positions = _positions(start, len(run), column)
        # A single day has two points, at its edges, so that it is drawn as wide as it is.
        drawn = [day for day in run for _ in range(2 if len(run) == 1 else 1)]
        points = [(x, _height(scale, day.estimate)) for x, day in zip(positions, drawn, strict=True)]
        upper = [(x, _height(scale, _or_edge(day.upper, scale.high))) for x, day in zip(positions, drawn, strict=True)]
        lower = [(x, _height(scale, _or_edge(day.lower, scale.low))) for x, day in zip(positions, drawn, strict=True)]
        lines.append(_path(points))
        bands.append(_path([*upper, *reversed(lower)]) + "Z")
    return Series("".join(lines), "".join(bands), round(column, 4))


def _runs(days: Sequence[Range | None]) -> Iterator[tuple[int, list[Range]]]:
    """Yield the runs of days without a gap, each with the index of its first day."""
    run: list[Range] = []
    for number, day in enumerate([*days, None]):
        if day is not None:
            run.append(day)
        elif run:
            yield number - len(run), run
            run = []


def _positions(start: int, count: int, column: float) -> list[float]:
    """Return the middles of the days of a run, or both edges of a single day."""
    shifts = (0.0, 1.0) if count == 1 else [number + 0.5 for number in range(count)]
    return [round((start + shift) * column, 2) for shift in shifts]


def _path(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{across:g} {down:g}" for across, down in points)
