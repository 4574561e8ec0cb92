"""The attributes of a user that an exposure stores, so that results can be broken down by them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import islice
from typing import Any

from events.properties import RESERVED

MOST_ATTRIBUTES = 32
"""An exposure stores the first of the attributes that can be stored, up to this number."""
ATTRIBUTE_LENGTH = 100
TEXT_LENGTH = 200


def kept_of(attributes: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the texts, finite numbers and booleans within the limits above, or None if there are none."""
    storable = (
        (name, value) for name, value in attributes.items() if 0 < len(name) <= ATTRIBUTE_LENGTH and _is_storable(value)
    )
    return dict(islice(storable, MOST_ATTRIBUTES)) or None


def attributes_in(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the properties of an event that may be attributes of the user, which are all but the reserved ones."""
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
