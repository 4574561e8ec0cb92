"""Timestamps of the API in ISO 8601. They are written in UTC and read with any offset."""

from __future__ import annotations

import re
from datetime import UTC, datetime, time, timedelta

# `fromisoformat` accepts more than this, but what differs between versions of Python.
_HOUR, _MINUTE, _SECOND = r"(?:[01]\d|2[0-3])", r"[0-5]\d", r"(?:[0-5]\d|(?P<leap>60))"
_ISO = re.compile(
    rf"\d{{4}}-\d{{2}}-\d{{2}}"
    rf"(?:[Tt ]{_HOUR}:{_MINUTE}(?::{_SECOND}(?:[.,]\d{{1,9}})?)?(?:[Zz]|[+-]{_HOUR}(?::?{_MINUTE})?)?)?",
    re.ASCII,
)
_LEAP_SECOND_AT = len("2026-01-31T12:00:")


def format_timestamp(moment: datetime) -> str:
    """Return an aware datetime as text in UTC, with microseconds and `Z`."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def parse_timestamp(text: str, *, end_of_day: bool = False) -> datetime:
    """Return an ISO 8601 or RFC 3339 timestamp as an aware datetime in UTC.

    A timestamp without an offset is in UTC. A leap second (60) is the first second of the next
    minute. A date alone is its first instant or, with `end_of_day`, its last. Raises ValueError for
    anything else, for days that do not exist, and for times outside the years 1 to 9999 in UTC.
    """
    text = text.strip()
    matched = _ISO.fullmatch(text)
    if not matched:
        raise ValueError("not an ISO 8601 timestamp")
    written = text.upper().replace(",", ".")
    if matched["leap"]:  # Python has no leap seconds
        written = f"{written[:_LEAP_SECOND_AT]}59{written[_LEAP_SECOND_AT + 2 :]}"
    moment = datetime.fromisoformat(written)
    if len(text) == len("2026-01-31") and end_of_day:
        moment = datetime.combine(moment, time.max)
    try:
        if matched["leap"]:
            moment += timedelta(seconds=1)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except OverflowError as error:
        raise ValueError("outside the years 1 to 9999") from error


def floor_to_second(moment: datetime) -> datetime:
    """Drop the fraction of a second, because clients send whole seconds."""
    return moment.replace(microsecond=0)
