"""Which attributes of a user an exposure keeps, to break results down by: plain ones, short ones, and not many."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import islice
from typing import Any

from events.properties import RESERVED

MOST_ATTRIBUTES = 32
"""Of one exposure: the first ones of those that can be kept."""
ATTRIBUTE_LENGTH = 100
TEXT_LENGTH = 200


def kept_of(attributes: Mapping[str, Any]) -> dict[str, Any] | None:
    """The texts, finite numbers and booleans among them, within the bounds above; None where nothing is left."""
    kept = (
        (name, value) for name, value in attributes.items() if 0 < len(name) <= ATTRIBUTE_LENGTH and _is_kept(value)
    )
    return dict(islice(kept, MOST_ATTRIBUTES)) or None


def attributes_in(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Those of an event's properties that may tell of the user; the reserved ones tell of the event."""
    return {name: value for name, value in properties.items() if name not in RESERVED}


def _is_kept(value: object) -> bool:
    match value:
        case str():
            return len(value) <= TEXT_LENGTH
        case bool() | int():
            return True
        case float():
            return math.isfinite(value)
    return False
