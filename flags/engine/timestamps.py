"""Timestamps in rules and attributes, in ISO 8601, and times relative to now, such as `-7d`.

`config.timestamps` accepts the same timestamps in requests. A test compares the two.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

# `fromisoformat` accepts more than this, and the rest differs between versions of Python.
_HOUR, _MINUTE, _SECOND = r"(?:[01]\d|2[0-3])", r"[0-5]\d", r"(?:[0-5]\d|(?P<leap>60))"
_ISO = re.compile(
    rf"\d{{4}}-\d{{2}}-\d{{2}}"
    rf"(?:[Tt ]{_HOUR}:{_MINUTE}(?::{_SECOND}(?:[.,]\d{{1,9}})?)?(?:[Zz]|[+-]{_HOUR}(?::?{_MINUTE})?)?)?",
    re.ASCII,
)
_LEAP_SECOND_AT = len("2026-01-31T12:00:")
_relative = re.compile(r"([+-]\d{1,5})([smhdw])", re.ASCII)
_FIRST, _LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def parse_timestamp(text: str) -> datetime:
    """Return an ISO 8601 or RFC 3339 timestamp as an aware datetime in UTC.

    Without an offset, it is in UTC. A date alone is its first instant. A leap second (60) is the first second of the
    next minute. Raises ValueError for anything else, including times outside the years 1 to 9999 in UTC.
    """
    text = text.strip()
    matched = _ISO.fullmatch(text)
    if not matched:
        raise ValueError("not an ISO 8601 timestamp")
    written = text.upper().replace(",", ".")
    if matched["leap"]:  # Python has no leap seconds
        written = f"{written[:_LEAP_SECOND_AT]}59{written[_LEAP_SECOND_AT + 2 :]}"
    time = datetime.fromisoformat(written)
    try:
        if matched["leap"]:
            time += timedelta(seconds=1)
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except OverflowError as error:
        raise ValueError("outside the years 1 to 9999") from error


def compile_time(text: str) -> Callable[[datetime], datetime]:
    """Return a function from now to the time that the text means.

    The text is an ISO 8601 timestamp, or a sign, up to five digits and one of s, m, h, d, w: `-7d` is a week ago.
    Raises ValueError for any other text.
    """
    distance = distance_from_now(text)
    if distance is not None:
        return lambda now: _shift(now, distance)
    time = parse_timestamp(text)
    return lambda now: time


def distance_from_now(text: str) -> timedelta | None:
    """Return the distance of a relative time from now, or None for any other text."""
    parts = relative_parts(text)
    return timedelta(**{parts[1]: parts[0]}) if parts else None


def relative_parts(text: str) -> tuple[int, str] | None:
    """Return the number and unit of a relative time, such as -7 and `days`, or None for any other text."""
    parts = _relative.fullmatch(text)
    return (int(parts[1]), _UNITS[parts[2]]) if parts else None


def _shift(now: datetime, distance: timedelta) -> datetime:
    try:
        return now + distance
    except OverflowError:  # `now` may be close to the last possible time
        return _LAST if distance > timedelta(0) else _FIRST
