"""Times at which answers change without an edit: moments that rules name, and relative moments of conditions.

Rules and conditions compute their own times when they are compiled.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from .timestamps import parse_timestamp

MAX_VALUES = 1_000
"""The most values of a list attribute for which conditions test each value."""

_INSTANT = timedelta(microseconds=1)
_LAST = datetime.max.replace(tzinfo=UTC)


class AtMoment(Protocol):
    """The time of an evaluation. `flags.engine.types.Context` has it, but imports this module."""

    @property
    def now(self) -> datetime: ...


@dataclass(frozen=True, slots=True)
class Flip:
    """A condition that compares an attribute with a moment at a fixed distance from now, such as `after -7d`.

    With `flips_when_equal`, its result changes at the moment when both are equal, otherwise right
    after it.
    """

    read: Callable[[Any], object]
    distance: timedelta
    flips_when_equal: bool

    def moments(self, context: AtMoment) -> Iterator[datetime]:
        """Yield the moments when the result changes for this user or, for a list, may change.

        A list that is too long matches nothing, so its result never changes.
        """
        actual = self.read(context)
        values = actual if isinstance(actual, list) else [actual]
        for value in values if len(values) <= MAX_VALUES else ():
            if type(value) is str:
                try:
                    equal = parse_timestamp(value) - self.distance
                    yield equal if self.flips_when_equal else equal + _INSTANT
                except (ValueError, OverflowError):  # not a timestamp, or out of the range of datetime
                    continue


@dataclass(frozen=True, slots=True)
class Times:
    """The times at which a rule, flag or segment changes without an edit."""

    moments: tuple[datetime, ...] = ()
    flips: tuple[Flip, ...] = ()


NEVER = Times()


def combine(parts: Iterable[Times]) -> Times:
    """Return the times of all parts together. Most parts never change without an edit, and share `NEVER`."""
    changing = [part for part in parts if part is not NEVER]
    if not changing:
        return NEVER
    return Times(
        tuple(sorted({moment for part in changing for moment in part.moments})),
        tuple(dict.fromkeys(flip for part in changing for flip in part.flips)),  # flags often share conditions
    )


@dataclass(frozen=True, slots=True)
class Timetable:
    """The times at which a configuration changes without an edit. A time may change nothing for some users."""

    times: Times

    def last_change(self, now: datetime) -> datetime | None:
        """Return the newest moment, at `now` or before it, that a rule names."""
        at = bisect_right(self.times.moments, now)
        return self.times.moments[at - 1] if at else None

    def next_change(self, now: datetime) -> datetime | None:
        """Return the first moment after `now` that a rule names."""
        at = bisect_right(self.times.moments, now)
        return self.times.moments[at] if at < len(self.times.moments) else None

    def next_change_for(self, context: AtMoment) -> datetime | None:
        """Return when this user's answers may next change, or None if only an edit changes them."""
        named = self.next_change(context.now)
        if not self.times.flips:
            return named
        flips = (moment for flip in self.times.flips for moment in flip.moments(context) if moment > context.now)
        first = min(flips, default=_LAST)
        return min(first, named or _LAST) if named or first < _LAST else None
