"""An event that has stopped, in words. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, timedelta

from django.utils.dateformat import format as date_format

from events.counts.stopped import HOURS_WATCHED, LEAST_SILENCE, Stopped

_HOUR = timedelta(hours=1)
RULE = (
    "An event has stopped if most hours of the seven days up to its last one had such events, and none came since for "
    f"more than {LEAST_SILENCE // _HOUR} hours and for more than three times its longest pause in these days."
)


def describe_stopped(stopped: Mapping[str, Stopped], environment: str) -> str:
    """Say which events have stopped, and since when; empty where none has."""
    return " ".join(_describe(name, event, environment) for name, event in sorted(stopped.items()))


def _describe(name: str, stopped: Stopped, environment: str) -> str:
    since = date_format(stopped.since.astimezone(UTC), "j M Y, H:i")
    return (
        f"The event {name} has stopped: {environment} has received none since {since} UTC. Before that, "
        f"{stopped.hours} of {HOURS_WATCHED} hours had some, and the longest pause was {_about(stopped.longest_pause)}."
    )


def _about(pause: timedelta) -> str:
    """Return `15 minutes`, `about 3 hours`, `about 2 days`."""
    if pause < 2 * _HOUR:
        return f"{pause // timedelta(minutes=1)} minutes"
    hours = round(pause / _HOUR)
    return f"about {hours} hours" if hours < 48 else f"about {round(hours / 24)} days"
