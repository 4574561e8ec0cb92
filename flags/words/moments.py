"""Moments in words: `26 Nov 2026, 09:00 UTC`. Words never round a moment, because rules act at its microsecond.

The time zone is part of each time. Readers elsewhere would take it for their own, and pages add theirs to it.
"""

from __future__ import annotations

from datetime import datetime, time

from flags.engine.moments import relative_parts

_DAYS_BY_NAME = 6
"""For how many days ahead the name of the day says which one it is."""


def describe_moment(moment: datetime) -> str:
    """Return the date and the time: `26 Nov 2026, 09:00 UTC`, with seconds only if there are any."""
    return f"{_date(moment)}, {_time(moment)}"


def describe_start(moment: datetime) -> str:
    """Return the moment from which something holds; a date alone is its first instant."""
    return _date(moment) if _is_midnight(moment) else describe_moment(moment)


def describe_coming(moment: datetime, now: datetime) -> str:
    """Return the moment from which something holds; one of the next six days by its name: `Friday at 09:00 UTC`."""
    if not 0 < (moment.date() - now.date()).days <= _DAYS_BY_NAME:
        return describe_start(moment)
    day = f"{moment:%A}"
    return day if _is_midnight(moment) else f"{day} at {_time(moment)}"


def describe_end(moment: datetime, now: datetime) -> str:
    """Return when something ended: its date, with the time if that was on the day of `now`."""
    return describe_moment(moment) if moment.date() == now.date() else _date(moment)


def describe_distance(text: str) -> str | None:
    """Return a relative time in words: `30 days ago` for `-30d`; None for any other text."""
    parts = relative_parts(text)
    if parts is None:
        return None
    number, unit = parts
    if not number:
        return "now"
    words = f"{abs(number):,} {unit.removesuffix('s') if abs(number) == 1 else unit}"
    return f"{words} ago" if number < 0 else f"{words} from now"


def _date(moment: datetime) -> str:
    return f"{moment.day} {moment:%b} {moment.year}"


def _time(moment: datetime) -> str:
    text = f"{moment:%H:%M}"
    if moment.second or moment.microsecond:
        text += f":{moment:%S}"
    if moment.microsecond:
        text += f".{moment.microsecond:06}".rstrip("0")
    return f"{text} UTC"


def _is_midnight(moment: datetime) -> bool:
    return moment.time() == time()
