"""What was written, in lines for a terminal: `~ flag dark-mode`, and below it `production enabled: false → true`.

Fields are those of the API and of files; `config.change_log.descriptions` says the same in words, for pages.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from config.change_log.history import tell
from config.documents import Document
from flags.changes.bulk import Written

_MOST_LINES = 100
_SHOWN_ELEMENTS = 5
_LONGEST_VALUE = 100
_UNTOLD = ("id", "key", "states")


def lines(written: Sequence[Written]) -> Iterator[str]:
    """All of it, in its order."""
    for each in written:
        yield f"{'~' if each.before else '+'} {each.kind} {each.key}"
        found = _differences(each.before or {}, each.after)
        yield from (f"    {line}" for line in islice(found, _MOST_LINES))
        if more := sum(1 for _ in found):
            yield f"    and {more:,} more differences"


def summary(written: Sequence[Written]) -> str:
    """How much it is: `2 flags created, 1 segment changed`."""
    counts: dict[str, int] = {}
    for each in written:
        what = f"{each.kind} {'changed' if each.before else 'created'}"
        counts[what] = counts.get(what, 0) + 1
    told = (f"{number:,} {what if number == 1 else what.replace(' ', 's ')}" for what, number in counts.items())
    return ", ".join(told) or "nothing to change"


def _differences(before: Document, after: Document) -> Iterator[str]:
    yield from map(_line, tell(_common(before), _common(after)))
    old, new = before.get("states", {}), after.get("states", {})
    for key in new:
        for each in tell(old.get(key, {}), new[key]):
            yield f"{key} {_line(each)}"


def _common(document: Document) -> Document:
    return {name: value for name, value in document.items() if name not in _UNTOLD and value not in ("", [])}


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
    yield from (f"{mark}{_text(each)}" for each in elements[:_SHOWN_ELEMENTS])
    more = len(elements) - _SHOWN_ELEMENTS + difference.get(f"more{name.capitalize()}", 0)
    if more > 0:
        yield f"{mark}{more:,} more"


def _text(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}…"
