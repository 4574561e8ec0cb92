"""The properties of an event in one line. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from events.properties import EXPERIMENT_ID, VARIANT

_MOST = 4
_LONGEST = 40


def describe_properties(properties: Mapping[str, Any]) -> str:
    """Return the first properties with their values, the long ones cut: `revenue 19.99 · currency EUR and 2 more`.

    The experiment and its variant are left out, because pages show them by themselves.
    """
    others = [(name, value) for name, value in properties.items() if name not in (EXPERIMENT_ID, VARIANT)]
    shown = [f"{_cut(name)} {shorten_value(value)}" for name, value in others[:_MOST]]
    more = len(others) - _MOST
    return " · ".join(shown) + (f" and {more:,} more" if more > 0 else "")


def shorten_value(value: object) -> str:
    return _cut(value_text(value))


def value_text(value: object) -> str:
    """Return a text as it is, and anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
