"""Entries of the history as the API answers them: a change with the differences that one environment may see.

Long values are shortened.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, zip_longest
from typing import Any

from config.documents import Document, is_identical, surplus
from config.models import Change, ChangeQuerySet
from config.timestamps import format_timestamp

MAX_CHANGES = 200
"""Differences in one entry."""
MAX_ELEMENTS = 100
"""Elements in one difference that were added to a list, and as many that were removed."""

MAX_VALUE_LENGTH = 1_000
"""Characters of JSON, after which a value is cut."""
MAX_ELEMENTS_LENGTH = 10_000
MAX_ENTRY_LENGTH = 20_000
"""Characters of JSON, after which an entry shows no further difference."""

_AT_ONCE = 10
_MAX_PARTS = 200
_OMITTED = ("id", "key", "states")  # the first two are in `object`
_NOTHING = object()

Entry = dict[str, Any]


def filter_visible(rows: ChangeQuerySet, environment: str) -> ChangeQuerySet:
    """Return the changes that all environments share, and those of this environment."""
    return rows.filter(environment__in=("", environment))


def make_entries(changes: Iterable[Change], environment: str) -> list[Entry]:
    """Return the entries of changes as one environment sees them. The documents of `changes` may be deferred.

    It takes one query. A document may have megabytes, so only a few are in memory at a time.
    """
    revisions = [change.revision for change in changes]
    rows = Change.objects.filter(revision__in=revisions).order_by("-revision")
    return [make_entry(change, environment) for change in rows.iterator(chunk_size=_AT_ONCE)] if revisions else []


def make_entry(change: Change, environment: str) -> Entry:
    """Return the entry of one change, without empty properties."""
    return {
        "revision": change.revision,
        "at": format_timestamp(change.at),
        "actor": change.actor,
        "source": change.source,
        **({"reason": change.reason} if change.reason else {}),
        "action": change.action,
        "object": {"kind": change.object_kind, "id": change.object_id, "key": change.key},
        **({"environment": change.environment} if change.environment else {}),
        **summarize_differences(change.before, change.after, environment),
    }


def summarize_differences(before: Document | None, after: Document | None, environment: str) -> Entry:
    """Return the differences between two documents as `changes`, and the number of others as `moreChanges`."""
    all_differences = find_differences(_as_seen_from(environment, before), _as_seen_from(environment, after))
    changes = list(_shortened(all_differences))
    more = sum(1 for _ in all_differences)
    return {"changes": changes, **({"moreChanges": more} if more else {})}


def _shortened(differences: Iterator[Entry]) -> Iterator[Entry]:
    """Yield shortened differences up to MAX_CHANGES of them, or until MAX_ENTRY_LENGTH is exceeded."""
    size = 0
    for difference in islice(differences, MAX_CHANGES):
        short = _shorten(difference)
        yield short
        size += len(_json(short))
        if size > MAX_ENTRY_LENGTH:
            return


def _shorten(difference: Entry) -> Entry:
    short = {**difference, "field": _cut(difference["field"])}
    for side in short.keys() & {"before", "after"}:
        short[side] = _brief(short[side])
    for name in [name for name in ("added", "removed") if name in short]:
        shown = list(_fitting(short[name]))
        if hidden := len(short[name]) - len(shown):
            more = f"more{name.capitalize()}"
            short[more] = short.get(more, 0) + hidden
        short[name] = shown
    return short


def _fitting(elements: Iterable[Any]) -> Iterator[Any]:
    size = 0
    for element in elements:
        short = _brief(element)
        size += len(_json(short))
        if size > MAX_ELEMENTS_LENGTH:
            return
        yield short


def _brief(value: Any) -> Any:
    """Return the value, or the beginning of its JSON as text if it is long."""
    text = _json(value)
    return value if len(text) <= MAX_VALUE_LENGTH else _cut(text)


def _cut(text: str) -> str:
    return text if len(text) <= MAX_VALUE_LENGTH else f"{text[:MAX_VALUE_LENGTH]}…"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _as_seen_from(environment: str, document: Document | None) -> Document:
    """Return the document as the API shows the object, with the state of the environment among its properties."""
    if document is None:
        return {}
    own = document.get("states", {}).get(environment, {})
    return {name: value for name, value in {**document, **own}.items() if name not in _OMITTED and value is not None}


def find_differences(before: object, after: object, path: str = "") -> Iterator[Entry]:
    """Yield each difference with its path: the two values, or what was added to a list and removed from it.

    A value that was added or removed is one difference, unless it has more parts than a person can read.
    """
    if is_identical(before, after):
        return
    if isinstance(before, dict) and isinstance(after, dict):
        yield from _compare_objects(before, after, path)
    elif isinstance(before, list) and isinstance(after, list):
        yield from _compare_lists(before, after, path)
    elif before is _NOTHING and not _has_few_parts(after):
        yield from find_differences(type(after)(), after, path)
    elif after is _NOTHING and not _has_few_parts(before):
        yield from find_differences(before, type(before)(), path)
    else:
        sides = {"before": before, "after": after}
        yield {"field": path, **{side: value for side, value in sides.items() if value is not _NOTHING}}


def _compare_objects(before: dict[str, Any], after: dict[str, Any], path: str) -> Iterator[Entry]:
    for name in [*before, *(name for name in after if name not in before)]:
        inner = f"{path}.{name}" if path else name
        yield from find_differences(before.get(name, _NOTHING), after.get(name, _NOTHING), inner)


def _compare_lists(before: list[Any], after: list[Any], path: str) -> Iterator[Entry]:
    if _is_plain(before) and _is_plain(after):
        yield _compare_elements(before, after, path)
    else:
        for index, (old, new) in enumerate(zip_longest(before, after, fillvalue=_NOTHING)):
            yield from find_differences(old, new, f"{path}[{index}]")


def _compare_elements(before: list[Any], after: list[Any], path: str) -> Entry:
    """Return one difference. Both of its lists are empty if only the order of elements has changed."""
    added, removed = surplus(after, before), surplus(before, after)
    more = {"moreAdded": len(added) - MAX_ELEMENTS, "moreRemoved": len(removed) - MAX_ELEMENTS}
    return {
        "field": path,
        "added": added[:MAX_ELEMENTS],
        "removed": removed[:MAX_ELEMENTS],
        **{name: number for name, number in more.items() if number > 0},
    }


def _is_plain(elements: Sequence[Any]) -> bool:
    return not any(isinstance(element, (dict, list)) for element in elements)


def _has_few_parts(value: object) -> bool:
    return sum(1 for _ in islice(_parts(value), _MAX_PARTS + 1)) <= _MAX_PARTS


def _parts(value: object) -> Iterator[object]:
    yield value
    if isinstance(value, dict):
        for member in value.values():
            yield from _parts(member)
    elif isinstance(value, list):
        for element in value:
            yield from _parts(element)
