"""Events in words: their properties in one line, and that they have stopped. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, timedelta
from typing import Any

from django.utils.dateformat import format as date_format

from events.counts.stopped import HOURS_WATCHED, MIN_SILENCE, Stopped
from events.properties import EXPERIMENT_ID, VARIANT

_MAX_SHOWN = 4
_MAX_LENGTH = 40
_HOUR = timedelta(hours=1)
STOPPED_RULE = (
    "An event has stopped if most hours of the seven days up to its last one had such events, and none came since for "
    f"more than {MIN_SILENCE // _HOUR} hours and for more than three times its longest pause in these days."
)


def describe_properties(properties: Mapping[str, Any]) -> str:
    """Return the first properties with their values, the long ones cut: `revenue 19.99 · currency EUR and 2 more`.

    The experiment and its variant are left out, because pages show them by themselves.
    """
    others = [(name, value) for name, value in properties.items() if name not in (EXPERIMENT_ID, VARIANT)]
    shown = [f"{_cut(name)} {shorten_value(value)}" for name, value in others[:_MAX_SHOWN]]
    more = len(others) - _MAX_SHOWN
    return " · ".join(shown) + (f" and {more:,} more" if more > 0 else "")


def shorten_value(value: object) -> str:
    return _cut(value_text(value))


def value_text(value: object) -> str:
    """Return a text as it is, and anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_LENGTH else f"{text[: _MAX_LENGTH - 1]}…"


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
