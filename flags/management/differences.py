"""Written changes as lines for a terminal: `~ flag dark-mode`, then ` production enabled: false → true`.

Fields have their names of the API. `config.change_log.descriptions` describes changes for pages.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from config.change_log.entries import find_differences
from config.documents import Document
from flags.changes.bulk import Written

_MAX_LINES = 100
_SHOWN_ELEMENTS = 5
_MAX_VALUE_LENGTH = 100
_OMITTED = ("id", "key", "states")


def lines(written: Sequence[Written]) -> Iterator[str]:
    """Yield the lines of all flags and segments that were written."""
    for entry in written:
        yield f"{'~' if entry.before else '+'} {entry.kind} {entry.key}"
        differences = _differences(entry.before or {}, entry.after)
        yield from (f"    {line}" for line in islice(differences, _MAX_LINES))
        if more := sum(1 for _ in differences):
            yield f"    and {more:,} more differences"


def summary(written: Sequence[Written]) -> str:
    """Return the number of changes, such as `2 flags created, 1 segment changed`."""
    counts = Counter(f"{entry.kind} {'changed' if entry.before else 'created'}" for entry in written)
    parts = (f"{count:,} {what if count == 1 else what.replace(' ', 's ')}" for what, count in counts.items())
    return ", ".join(parts) or "nothing to change"


def _differences(before: Document, after: Document) -> Iterator[str]:
    yield from map(_line, find_differences(_common(before), _common(after)))
    old, new = before.get("states", {}), after.get("states", {})
    for key in new:
        for difference in find_differences(old.get(key, {}), new[key]):
            yield f"{key} {_line(difference)}"


def _common(as_json: Document) -> Document:
    return {name: value for name, value in as_json.items() if name not in _OMITTED and value not in ("", [])}


def _line(difference: Mapping[str, Any]) -> str:
    field = difference["field"]
    if "added" in difference:
        moved = [*_moved("+", difference, "added"), *_moved("-", difference, "removed")]
        return f"{field}: {', '.join(moved) or 'in another order'}"
    old, new = (_text(difference[side]) if side in difference else None for side in ("before", "after"))
    if old is None or new is None:
        return f"{field}: {new}" if old is None else f"{field}: {old} → nothing"
    return f"{field}: {old} → {new}"


def _moved(mark: str, difference: Mapping[str, Any], name: str) -> Iterator[str]:
    elements = difference[name]
    yield from (f"{mark}{_text(element)}" for element in elements[:_SHOWN_ELEMENTS])
    more = len(elements) - _SHOWN_ELEMENTS + difference.get(f"more{name.capitalize()}", 0)
    if more > 0:
        yield f"{mark}{more:,} more"


def _text(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MAX_VALUE_LENGTH else f"{text[:_MAX_VALUE_LENGTH]}…"
