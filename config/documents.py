"""JSON documents: their type, how stored ones are read, and when two are the same."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

Document = dict[str, Any]


class StoredJSONDecoder(json.JSONDecoder):
    """Reads JSON columns: PostgreSQL hands 1e20 back as a long integer, which JSON answers then could not carry."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{**options, "parse_int": _parse_stored_int})


def _parse_stored_int(digits: str) -> int | float:
    number = int(digits) if len(digits) <= 20 else float(digits)
    return number if -(2**63) <= number < 2**64 else float(digits)


def is_same(one: object, other: object) -> bool:
    """Compare as JSON does: `1` is `1.0` but not `true`, and the order of an object's names does not matter."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(is_same(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(is_same, one, other))
    return one == other
