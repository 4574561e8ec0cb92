"""When what is served changes by itself: the moments that rules name, and those at which an attribute comes of age.

Not here: what rules and conditions are, which say when they change as they are compiled.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from config.timestamps import parse_timestamp

MOST_VALUES = 1_000
"""Of a list in an attribute that conditions look into."""

_INSTANT = timedelta(microseconds=1)
_LAST = datetime.max.replace(tzinfo=UTC)


class AtMoment(Protocol):
    """A user who is asked about at one moment: `flags.engine.types.Context`, which is made of what is defined here."""

    @property
    def now(self) -> datetime: ...


@dataclass(frozen=True, slots=True)
class Flip:
    """A condition that compares an attribute with a moment at a fixed distance from now, such as `after -7d`.

    `is_at_once`: it changes at the very moment that both are equal, and not right after it.
    """

    read: Callable[[Any], object]
    distance: timedelta
    is_at_once: bool

    def moments(self, context: AtMoment) -> Iterator[datetime]:
        """When the condition changes for this user; for a list, when it may. One that is too long matches nothing."""
        found = self.read(context)
        values = found if isinstance(found, list) else [found]
        for value in values if len(values) <= MOST_VALUES else ():
            if type(value) is str:
                try:
                    met = parse_timestamp(value) - self.distance
                    yield met if self.is_at_once else met + _INSTANT
                except (ValueError, OverflowError):  # no moment at all, or one that never comes
                    continue


@dataclass(frozen=True, slots=True)
class Times:
    """When a rule, flag or segment changes by itself."""

    moments: tuple[datetime, ...] = ()
    flips: tuple[Flip, ...] = ()


NEVER = Times()


def combine(parts: Iterable[Times]) -> Times:
    """Return the times of all parts as one; most things never change by themselves, and share `NEVER`."""
    found = [part for part in parts if part is not NEVER]
    if not found:
        return NEVER
    return Times(
        tuple(sorted({moment for part in found for moment in part.moments})),
        tuple(dict.fromkeys(flip for part in found for flip in part.flips)),  # flags often ask the same
    )


@dataclass(frozen=True, slots=True)
class Timetable:
    """When a whole configuration changes by itself. Any of these moments may turn out to change nothing for a user."""

    times: Times

    def last_change(self, now: datetime) -> datetime | None:
        """Return the newest moment named by a rule that has come."""
        at = bisect_right(self.times.moments, now)
        return self.times.moments[at - 1] if at else None

    def next_change(self, now: datetime) -> datetime | None:
        """Return the first moment named by a rule that is still to come."""
        at = bisect_right(self.times.moments, now)
        return self.times.moments[at] if at < len(self.times.moments) else None

    def next_change_for(self, context: AtMoment) -> datetime | None:
        """Return until when this user's answers stay what they are, or None where only an edit changes them."""
        named = self.next_change(context.now)
        if not self.times.flips:
            return named
        flips = (moment for flip in self.times.flips for moment in flip.moments(context) if moment > context.now)
        first = min(flips, default=_LAST)
        return min(first, named or _LAST) if named or first < _LAST else None
