"""Where the marks of a chart stand, computed from the numbers alone. Colours and letters are for templates.

Places are percentages of a drawing, from its left or its top edge: a drawing is as wide as the page lets it be, and
its letters keep their size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

_TIMES_THE_NARROWEST = 5.0
_MARGIN = 0.06
_ROOM_FOR_EARLIER_DAYS = 0.5  # above and below what the latest day needs
_TINY = 1e-200  # what is closer together than this is one place, and no step between ticks
_FEWEST_TICKS = 3
_FEWEST_IN_A_COLUMN = 2  # of a table, which is narrow
_STEPS = (5.0, 2.0, 1.0)


@dataclass(frozen=True, slots=True)
class Range:
    """What is known of a number: an estimate within an interval, which may be wide."""

    lower: float
    estimate: float
    upper: float


@dataclass(frozen=True, slots=True)
class Scale:
    """The numbers that a drawing has room for; zero is always one of them."""

    low: float
    high: float

    def at(self, value: float) -> float:
        """The place of a number: 0 for the lowest, 100 for the highest, and never outside."""
        share = (value - self.low) / (self.high - self.low)
        return round(100 * min(1.0, max(0.0, share)), 2)

    def ticks(self, fewest: int = _FEWEST_TICKS) -> list[float]:
        """Round numbers on the scale, zero among them: three to seven, at steps of 1, 2 or 5 times a power of 10.

        With `fewest` 2, for whom there is less room: two to five.
        """
        size = 10.0 ** math.floor(math.log10(self.high - self.low))
        candidates = (self._multiples(step * power) for power in (size, size / 10) for step in _STEPS)
        return next(multiples for multiples in candidates if len(multiples) >= fewest)

    def _multiples(self, step: float) -> list[float]:
        # A little beyond the ends, for a step such as 0.1 is not exactly that.
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [number * step for number in range(first, last + 1)]


def scale_for(ranges: Sequence[Range | None]) -> Scale:
    """A scale with zero, every estimate, and of every interval as much as leaves the others legible.

    An interval of few users may be a hundred times as wide as the rest: all are cut at five times the reach of the
    narrowest.
    """
    intervals = [interval for interval in ranges if interval is not None]
    if not intervals:
        return Scale(-1.0, 1.0)
    narrowest = min(max(abs(interval.lower), abs(interval.upper)) for interval in intervals)
    limit = max([_TIMES_THE_NARROWEST * narrowest, *(abs(interval.estimate) for interval in intervals)])
    low = min(0.0, max(-limit, min(interval.lower for interval in intervals)))
    high = max(0.0, min(limit, max(interval.upper for interval in intervals)))
    return _with_room(low, high, _MARGIN)


def _with_room(low: float, high: float, share: float) -> Scale:
    """So much wider at both ends, as a share of the whole."""
    if high - low < _TINY:
        return Scale(-1.0, 1.0)
    room = share * (high - low)
    return Scale(low - room, high + room)


@dataclass(frozen=True, slots=True)
class Tick:
    """A number beside a chart, and its place."""

    label: str
    at: float


@dataclass(frozen=True, slots=True)
class Bar:
    """An interval as a line from `start` on, `length` long, with its estimate as a point on it."""

    start: float
    length: float
    point: float
    is_cut_below: bool
    is_cut_above: bool

    @property
    def end(self) -> float:
        return round(self.start + self.length, 2)


@dataclass(frozen=True, slots=True)
class IntervalPlot:
    """Intervals below one another on one scale, each around its estimate; None where there is nothing to draw."""

    zero: float
    ticks: Sequence[Tick]
    bars: Sequence[Bar | None]


def plot_intervals(ranges: Sequence[Range | None], label: Callable[[float], str]) -> IntervalPlot:
    """One bar for each range. `label` writes the numbers below."""
    scale = scale_for(ranges)
    ticks = [Tick(label(value), scale.at(value)) for value in scale.ticks(_FEWEST_IN_A_COLUMN)]
    return IntervalPlot(
        scale.at(0.0), ticks, [None if interval is None else _bar(scale, interval) for interval in ranges]
    )


def _bar(scale: Scale, interval: Range) -> Bar:
    start, end = scale.at(interval.lower), scale.at(interval.upper)
    return Bar(
        start=start,
        length=round(end - start, 2),
        point=scale.at(interval.estimate),
        is_cut_below=interval.lower < scale.low,
        is_cut_above=interval.upper > scale.high,
    )


@dataclass(frozen=True, slots=True)
class Series:
    """One quantity from day to day: `line` through its estimates and `band` over its intervals, as paths of SVG.

    The paths are drawn in a square of 100 by 100 that is stretched to fill its place. They break where days are
    unknown. `column` is the width of one day.
    """

    line: str
    band: str
    column: float


@dataclass(frozen=True, slots=True)
class SeriesPlot:
    """Series beside one another on one scale, each in a drawing of its own."""

    zero: float
    ticks: Sequence[Tick]
    series: Sequence[Series]


def plot_series(days: Sequence[Sequence[Range | None]], label: Callable[[float], str]) -> SeriesPlot:
    """One series for each sequence of days. `label` writes the numbers at the side."""
    scale = _scale_for_days(days)
    ticks = [Tick(label(value), _height(scale, value)) for value in scale.ticks()]
    return SeriesPlot(_height(scale, 0.0), ticks, [_series(scale, series) for series in days])


def _scale_for_days(days: Sequence[Sequence[Range | None]]) -> Scale:
    """A scale for the latest of each series, with some room for what was known less well before."""
    latest = scale_for([next((interval for interval in reversed(series) if interval), None) for series in days])
    return _with_room(latest.low, latest.high, _ROOM_FOR_EARLIER_DAYS)


def _height(scale: Scale, value: float) -> float:
    return round(100 - scale.at(value), 2)


def _series(scale: Scale, days: Sequence[Range | None]) -> Series:
    column = 100 / max(1, len(days))
    lines, bands = [], []
    for start, run in _runs(days):
        places = _places(start, len(run), column)
        # A day between unknown ones is drawn as wide as it is.
        drawn = [day for day in run for _ in range(2 if len(run) == 1 else 1)]
        points = [(place, _height(scale, day.estimate)) for place, day in zip(places, drawn, strict=True)]
        upper = [(place, _height(scale, day.upper)) for place, day in zip(places, drawn, strict=True)]
        lower = [(place, _height(scale, day.lower)) for place, day in zip(places, drawn, strict=True)]
        lines.append(_path(points))
        bands.append(_path([*upper, *reversed(lower)]) + "Z")
    return Series("".join(lines), "".join(bands), round(column, 4))


def _runs(days: Sequence[Range | None]) -> Iterator[tuple[int, list[Range]]]:
    """The days that follow one another without an unknown one between, with the number of the first."""
    run: list[Range] = []
    for number, day in enumerate([*days, None]):
        if day is not None:
            run.append(day)
        elif run:
            yield number - len(run), run
            run = []


def _places(start: int, count: int, column: float) -> list[float]:
    """The middles of days; the edges of one that is alone."""
    shifts = (0.0, 1.0) if count == 1 else [number + 0.5 for number in range(count)]
    return [round((start + shift) * column, 2) for shift in shifts]


def _path(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{across:g} {down:g}" for across, down in points)
