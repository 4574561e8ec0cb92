"""The attributes of users that exposures store, so that results can be broken down by them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from events.properties import RESERVED
from flags.engine.conditions import MAX_LEVELS

MAX_ATTRIBUTES = 32
"""An exposure stores at most this many attributes: the first of those that can be stored."""
ATTRIBUTE_LENGTH = 100
TEXT_LENGTH = 200


def storable_attributes(attributes: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the strings, finite numbers and booleans within these limits; None if there are none.

    Attributes within objects get the names that conditions use: `a.b` for `b` within `a`.
    """
    if not attributes:
        return None
    storable = (
        (name, value) for name, value in _named(attributes) if 0 < len(name) <= ATTRIBUTE_LENGTH and _is_storable(value)
    )
    return dict(islice(storable, MAX_ATTRIBUTES)) or None


def _named(attributes: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the attributes, and then those within objects, level by level. Each name comes once."""
    yield from attributes.items()
    inner, seen = _within("", attributes), set(attributes)
    for _ in range(MAX_LEVELS - 1):
        holders, inner = inner, []
        for prefix, holder in holders:
            for name, value in holder.items():
                if prefix + name not in seen:
                    seen.add(prefix + name)
                    yield prefix + name, value
            inner += _within(prefix, holder)


def _within(prefix: str, holder: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the objects in which conditions look further. Conditions skip objects with a dot in their own name."""
    entries = holder.items()
    return [(f"{prefix}{name}.", value) for name, value in entries if isinstance(value, dict) and "." not in name]


def attributes_in(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the properties of an event that describe the user: all but the reserved ones."""
    if RESERVED.issuperset(properties):  # as in most reports
        return {}
    return {name: value for name, value in properties.items() if name not in RESERVED}


def _is_storable(value: object) -> bool:
    match value:
        case str():
            return len(value) <= TEXT_LENGTH
        case bool() | int():
            return True
        case float():
            return math.isfinite(value)
    return False
