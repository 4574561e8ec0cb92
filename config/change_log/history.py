"""History as it is told: rows of the change log as entries that say what each write changed, for one environment.

What other environments have of an object is told to nobody here, and what is long only as far as a person reads.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, zip_longest
from typing import Any

from config.documents import Document, is_same
from config.models import Change, ChangeQuerySet
from config.timestamps import format_timestamp

MOST_CHANGES = 200
"""Differences that one entry tells."""
MOST_ELEMENTS = 100
"""Elements that were added to a list, or removed from it, that one difference tells."""

LONGEST_TEXT = 1_000
"""Characters of JSON that are told of one value."""
MOST_TEXT_OF_ELEMENTS = 10_000
MOST_TEXT = 20_000
"""Characters of JSON after which no further difference is told."""

_AT_ONCE = 10
_MOST_PARTS = 200
_UNTOLD = ("id", "key", "states")  # the first two stand in `object`
_NOTHING = object()

Told = dict[str, Any]


def concerning(rows: ChangeQuerySet, environment: str) -> ChangeQuerySet:
    """The changes of what all environments share, and of what is this one's own."""
    return rows.filter(environment__in=("", environment))


def entries(changes: Iterable[Change], environment: str) -> list[Told]:
    """Tell changes, whose documents need not be loaded, as one environment sees them. One query, whatever their number.

    A document may hold lists of megabytes, so only a few are in memory at a time.
    """
    revisions = [change.revision for change in changes]
    rows = Change.objects.filter(revision__in=revisions).order_by("-revision")
    return [entry(change, environment) for change in rows.iterator(chunk_size=_AT_ONCE)] if revisions else []


def entry(change: Change, environment: str) -> Told:
    """Tell one change. What has no value is left out."""
    return {
        "revision": change.revision,
        "at": format_timestamp(change.at),
        "actor": change.actor,
        "source": change.source,
        **({"reason": change.reason} if change.reason else {}),
        "action": change.action,
        "object": {"kind": change.kind, "id": change.object_id, "key": change.key},
        **({"environment": change.environment} if change.environment else {}),
        **differences(change.before, change.after, environment),
    }


def differences(before: Document | None, after: Document | None, environment: str) -> Told:
    """Tell what differs between two documents of an object, as `changes`, and how many more there are."""
    found = tell(_seen_from(environment, before), _seen_from(environment, after))
    changes = list(_shortened(found))
    more = sum(1 for _ in found)
    return {"changes": changes, **({"moreChanges": more} if more else {})}


def _shortened(found: Iterator[Told]) -> Iterator[Told]:
    """Take differences, each as long as a person reads, until there are enough."""
    size = 0
    for each in islice(found, MOST_CHANGES):
        short = _shorten(each)
        yield short
        size += len(_json(short))
        if size > MOST_TEXT:
            return


def _shorten(difference: Told) -> Told:
    short = {**difference, "field": _cut(difference["field"])}
    for side in short.keys() & {"before", "after"}:
        short[side] = _brief(short[side])
    for name in [name for name in ("added", "removed") if name in short]:
        told = list(_fitting(short[name]))
        if untold := len(short[name]) - len(told):
            more = f"more{name.capitalize()}"
            short[more] = short.get(more, 0) + untold
        short[name] = told
    return short


def _fitting(elements: Iterable[Any]) -> Iterator[Any]:
    size = 0
    for each in elements:
        short = _brief(each)
        size += len(_json(short))
        if size > MOST_TEXT_OF_ELEMENTS:
            return
        yield short


def _brief(value: Any) -> Any:
    """The value, or where that is long, the beginning of its JSON."""
    text = _json(value)
    return value if len(text) <= LONGEST_TEXT else _cut(text)


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}…"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _seen_from(environment: str, document: Document | None) -> Document:
    """The document as the API shows the object: with the state of this environment as its own properties."""
    if document is None:
        return {}
    own = document.get("states", {}).get(environment, {})
    return {name: value for name, value in {**document, **own}.items() if name not in _UNTOLD and value is not None}


def tell(before: object, after: object, path: str = "") -> Iterator[Told]:
    """Yield each difference with its path: what stood there and what does, or what a list gained and lost.

    What came or went is told as a whole, as long as a person would read it.
    """
    if is_same(before, after):
        return
    if isinstance(before, dict) and isinstance(after, dict):
        yield from _tell_object(before, after, path)
    elif isinstance(before, list) and isinstance(after, list):
        yield from _tell_list(before, after, path)
    elif before is _NOTHING and not _has_few_parts(after):
        yield from tell(type(after)(), after, path)
    elif after is _NOTHING and not _has_few_parts(before):
        yield from tell(before, type(before)(), path)
    else:
        sides = {"before": before, "after": after}
        yield {"field": path, **{side: value for side, value in sides.items() if value is not _NOTHING}}


def _tell_object(before: dict[str, Any], after: dict[str, Any], path: str) -> Iterator[Told]:
    for name in [*before, *(name for name in after if name not in before)]:
        inner = f"{path}.{name}" if path else name
        yield from tell(before.get(name, _NOTHING), after.get(name, _NOTHING), inner)


def _tell_list(before: list[Any], after: list[Any], path: str) -> Iterator[Told]:
    if _is_plain(before) and _is_plain(after):
        yield _tell_elements(before, after, path)
    else:
        for at, (old, new) in enumerate(zip_longest(before, after, fillvalue=_NOTHING)):
            yield from tell(old, new, f"{path}[{at}]")


def _tell_elements(before: list[Any], after: list[Any], path: str) -> Told:
    """Both lists are empty where only the order has changed."""
    added, removed = _surplus(after, before), _surplus(before, after)
    more = {"moreAdded": len(added) - MOST_ELEMENTS, "moreRemoved": len(removed) - MOST_ELEMENTS}
    return {
        "field": path,
        "added": added[:MOST_ELEMENTS],
        "removed": removed[:MOST_ELEMENTS],
        **{name: number for name, number in more.items() if number > 0},
    }


def _surplus(elements: list[Any], others: list[Any]) -> list[Any]:
    """The elements that are not among the others, in their order. (In Python, 1 is also True.)"""
    left = Counter((type(each) is bool, each) for each in others)
    found = []
    for each in elements:
        if left[type(each) is bool, each] > 0:
            left[type(each) is bool, each] -= 1
        else:
            found.append(each)
    return found


def _is_plain(elements: Sequence[Any]) -> bool:
    return not any(isinstance(each, (dict, list)) for each in elements)


def _has_few_parts(value: object) -> bool:
    """Whether a value can be told as a whole."""
    return sum(1 for _ in islice(_parts(value), _MOST_PARTS + 1)) <= _MOST_PARTS


def _parts(value: object) -> Iterator[object]:
    yield value
    if isinstance(value, dict):
        for each in value.values():
            yield from _parts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _parts(each)
