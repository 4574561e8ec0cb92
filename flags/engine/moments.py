"""Moments that conditions compare with: fixed timestamps, and times relative to now."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from .timestamps import parse_timestamp

_relative = re.compile(r"([+-]\d{1,5})([smhdw])", re.ASCII)
_FIRST, _LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def compile_moment(text: str) -> Callable[[datetime], datetime]:
    """Return a function from now to the moment. The text is an ISO 8601 timestamp, or relative: `-7d` is a week ago.

    Relative moments have a sign, up to five digits and one of s, m, h, d, w. Raises ValueError for
    any other text.
    """
    distance = distance_from_now(text)
    if distance is not None:
        return lambda now: _shift(now, distance)
    moment = parse_timestamp(text)
    return lambda now: moment


def distance_from_now(text: str) -> timedelta | None:
    """Return the distance of a relative moment from now, or None for any other text."""
    parts = relative_parts(text)
    return timedelta(**{parts[1]: parts[0]}) if parts else None


def relative_parts(text: str) -> tuple[int, str] | None:
    """Return the number and the unit of a relative moment, such as -7 and `days`; None for any other text."""
    parts = _relative.fullmatch(text)
    return (int(parts[1]), _UNITS[parts[2]]) if parts else None


def _shift(now: datetime, distance: timedelta) -> datetime:
    try:
        return now + distance
    except OverflowError:  # callers may evaluate at any time, even close to the last one
        return _LAST if distance > timedelta(0) else _FIRST
