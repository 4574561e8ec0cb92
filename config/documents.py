"""JSON documents: their type, the decoder of stored ones, and their comparison."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

Document = dict[str, Any]


class StoredJSONDecoder(json.JSONDecoder):
    """Decodes JSON columns. PostgreSQL returns 1e20 as a long integer, which a JSON response cannot have."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{**options, "parse_int": _parse_stored_int})


def _parse_stored_int(digits: str) -> int | float:
    number = int(digits) if len(digits) <= 20 else float(digits)
    return number if -(2**63) <= number < 2**64 else float(digits)


def is_same(first: object, second: object) -> bool:
    """Return whether two JSON values are equal. `1` equals `1.0` but not `true`, and names may have any order."""
    if isinstance(first, bool) or isinstance(second, bool):
        return first is second
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        return first.keys() == second.keys() and all(is_same(first[name], second[name]) for name in first)
    if isinstance(first, list) and isinstance(second, list):
        return len(first) == len(second) and all(map(is_same, first, second))
    return first == second


def is_identical(first: object, second: object) -> bool:
    """Return whether two JSON values are equal and their numbers are written alike: `1` differs from `1.0`."""
    return is_same(first, second) and json.dumps(first, sort_keys=True) == json.dumps(second, sort_keys=True)


def surplus(elements: Sequence[Any], others: Sequence[Any]) -> list[Any]:
    """Return the elements that are not in `others`, in order. Each of the others cancels one equal element."""
    unmatched = Counter((type(other) is bool, other) for other in others)  # 1 equals True in Python
    found = []
    for element in elements:
        if unmatched[type(element) is bool, element] > 0:
            unmatched[type(element) is bool, element] -= 1
        else:
            found.append(element)
    return found
