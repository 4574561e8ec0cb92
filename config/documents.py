"""JSON documents: their type, and what differs between two of them in words that a person can read."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
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


def differences(before: object, after: object, path: str = "") -> Iterator[tuple[str, object, object]]:
    """Yield (path, old, new) for every leaf that differs; None stands for what is not there."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for name in [*before, *(name for name in after if name not in before)]:
            yield from differences(before.get(name), after.get(name), f"{path}.{name}" if path else str(name))
    elif isinstance(before, list) and isinstance(after, list):
        for at in range(max(len(before), len(after))):
            old, new = (side[at] if at < len(side) else None for side in (before, after))
            yield from differences(old, new, f"{path}[{at}]")
    elif not is_same(before, after):
        yield path, before, after


def describe(before: Document | None, after: Document | None) -> list[str]:
    """Say each difference in one line: `states.production.enabled: false → true`."""
    return [f"{path}: {_text(old)} → {_text(new)}" for path, old, new in differences(before or {}, after or {})]


def _text(value: object) -> str:
    return "nothing" if value is None else json.dumps(value, ensure_ascii=False)
