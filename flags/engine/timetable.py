"""Times at which answers change without an edit: by schedules of rules and by conditions on relative times.

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
"""How many elements of a list attribute a condition tests."""

_INSTANT = timedelta(microseconds=1)
_LAST = datetime.max.replace(tzinfo=UTC)


class HasNow(Protocol):
    """What this module needs of `flags.engine.types.Context`, which imports it."""

    @property
    def now(self) -> datetime: ...


@dataclass(frozen=True, slots=True)
class Flip:
    """A condition that compares an attribute with a time at a fixed distance from now, such as `after -7d`.

    With `flips_when_equal`, its result changes when both are equal, otherwise right after that.
    """

    read: Callable[[Any], object]
    distance: timedelta
    flips_when_equal: bool

    def times_for(self, context: HasNow) -> Iterator[datetime]:
        """Yield when the result changes for this user or, for a list, may change.

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
    """When a rule, flag or segment changes without an edit."""

    scheduled: tuple[datetime, ...] = ()
    flips: tuple[Flip, ...] = ()


NEVER = Times()


def combine(parts: Iterable[Times]) -> Times:
    """Return the times of all parts. Most parts never change without an edit, and share `NEVER`."""
    changing = [part for part in parts if part is not NEVER]
    if not changing:
        return NEVER
    return Times(
        tuple(sorted({time for part in changing for time in part.scheduled})),
        tuple(dict.fromkeys(flip for part in changing for flip in part.flips)),  # flags often share conditions
    )


@dataclass(frozen=True, slots=True)
class Timetable:
    """When a configuration changes without an edit. A change may not concern every user."""

    times: Times

    def last_change(self, now: datetime) -> datetime | None:
        """Return the newest time in a schedule that is not after `now`."""
        index = bisect_right(self.times.scheduled, now)
        return self.times.scheduled[index - 1] if index else None

    def next_change(self, now: datetime) -> datetime | None:
        """Return the first time in a schedule that is after `now`."""
        index = bisect_right(self.times.scheduled, now)
        return self.times.scheduled[index] if index < len(self.times.scheduled) else None

    def next_change_for(self, context: HasNow) -> datetime | None:
        """Return when this user's answers may next change, or None if only an edit changes them."""
        named = self.next_change(context.now)
        if not self.times.flips:
            return named
        flips = (time for flip in self.times.flips for time in flip.times_for(context) if time > context.now)
        first = min(flips, default=_LAST)
        return min(first, named or _LAST) if named or first < _LAST else None
