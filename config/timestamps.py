"""Points in time as the API writes and reads them: ISO 8601, UTC on the way out, any offset on the way in."""

from __future__ import annotations

import re
from datetime import UTC, datetime, time

# What Python reads beyond this differs from version to version.
_HOUR, _MINUTE = r"(?:[01]\d|2[0-3])", r"[0-5]\d"
_ISO = re.compile(
    rf"\d{{4}}-\d{{2}}-\d{{2}}"
    rf"(?:[T ]{_HOUR}:{_MINUTE}(?::{_MINUTE}(?:[.,]\d{{1,9}})?)?(?:Z|[+-]{_HOUR}:?{_MINUTE})?)?",
    re.ASCII,
)


def format_timestamp(moment: datetime) -> str:
    """Write an aware datetime as UTC with microseconds and `Z`."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def parse_timestamp(text: str, *, end_of_day: bool = False) -> datetime:
    """Read ISO 8601 as an aware UTC datetime.

    A moment with no offset is UTC. A date alone is its first instant or, with `end_of_day`, its last. Raises ValueError
    for anything else, for days that do not exist and for moments that UTC cannot hold.
    """
    text = text.strip()
    if not _ISO.fullmatch(text):
        raise ValueError("not an ISO 8601 timestamp")
    moment = datetime.fromisoformat(text.replace(",", "."))
    if len(text) == len("2026-01-31") and end_of_day:
        moment = datetime.combine(moment, time.max)
    if moment.tzinfo is None:
        return moment.replace(tzinfo=UTC)
    try:
        return moment.astimezone(UTC)
    except OverflowError as error:
        raise ValueError("outside the years 1 to 9999") from error


def floor_to_second(moment: datetime) -> datetime:
    """Return the moment without its fraction of a second: clients send whole seconds."""
    return moment.replace(microsecond=0)
