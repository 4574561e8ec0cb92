"""Changes of configuration in words, for the pages of the admin.

`config.change_log.history` finds the differences.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from itertools import islice
from typing import Any

from django.db.models import Case, F, JSONField, Q, When
from django.utils import timezone
from django.utils.timesince import timesince

from config.change_log.history import find_differences
from config.documents import Document, StoredJSONDecoder
from config.models import Change, ChangeQuerySet, kinds_of

_MOST_LINES = 200
_MOST_ELEMENTS = 5
_LONGEST_VALUE = 300
_HEAD_FIELDS = frozenset({"id", "key"})  # shown above the differences

DescribeValue = Callable[[str, Any], str | None]
"""Describes the value at a path such as `rules[0]`; returns None where JSON reads as well."""

DescribeValueAt = Callable[[str, Any, datetime], str | None]
"""Does the same, as the value was meant at the moment of the change."""

_capital = re.compile(r"(?<=[a-z])[A-Z]")
_timestamp = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)\.\d+Z")
_literal = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d+)?|true|false|null|yes|no|none|nothing")
_element = re.compile(r"^(.*?)s?\[(\d+)\]$")


def _as_json(_path: str, _value: Any) -> str | None:
    return None


value_describers: dict[str, DescribeValueAt] = {}
"""For each kind of object, the function that describes its values.

The admin of each app adds its own.
"""

missing_values: dict[str, str] = {}
"""What it means, in words, that a document leaves out the property at a path.

The admin of each app adds its own.
"""


@dataclass(frozen=True, slots=True)
class DescribedChange:
    """A change in words.

    `revert_address` is the page that restores the state after this change, if there is one.
    """

    change: Change
    action: str
    lines: Sequence[str]
    revert_address: str = ""

    @property
    def kind(self) -> str:
        return self.change.object_kind.replace("_", " ")

    @property
    def summary(self) -> str:
        """Return one line: the first difference, and how many more there are."""
        if self.action != "changed":
            return self.action
        more = f" and {len(self.lines) - 1} more" if len(self.lines) > 1 else ""
        return f"{self.lines[0][:140]}{more}" if self.lines else "changed"

    @property
    def ago(self) -> str:
        if timezone.now() - self.change.at < timedelta(minutes=1):
            return "just now"
        return f"{timesince(self.change.at, depth=1)} ago"


@dataclass(frozen=True, slots=True)
class Comparison:
    """A property that differs between two versions of an object, and what it is in each of them, in words."""

    what: str
    first: str
    second: str


def describe_change(change: Change) -> DescribedChange:
    return DescribedChange(change, change.action, _describe(change, change.before, change.after))


def without_long_documents(changes: ChangeQuerySet, long_kinds: Collection[str]) -> ChangeQuerySet:
    """Prepare changes for `describe_change_briefly`, without documents that may hold megabytes."""
    is_short = ~Q(kind__in=[stored_kind for kind in long_kinds for stored_kind in kinds_of(kind)])
    column = JSONField(decoder=StoredJSONDecoder)
    documents = {
        f"brief_{side}": Case(When(is_short, then=F(side)), output_field=column) for side in ("before", "after")
    }
    return changes.defer("before", "after").annotate(
        is_creation=Q(before__isnull=True), is_deletion=Q(after__isnull=True), **documents
    )


def describe_change_briefly(change: Any) -> DescribedChange:
    """Describe a change from `without_long_documents`; one of a long kind has no lines."""
    action = "created" if change.is_creation else "deleted" if change.is_deletion else "changed"
    return DescribedChange(change, action, _describe(change, change.brief_before, change.brief_after))


def _describe(change: Change, before: Document | None, after: Document | None) -> list[str]:
    return describe_differences(before, after, describer_of(change.object_kind, change.at))


def describer_of(kind: str, at: datetime) -> DescribeValue:
    """Return what describes the values of such objects, as they are meant at a time."""
    describe_at = value_describers.get(kind)
    return partial(_described, describe_at, at) if describe_at else _as_json


def _described(describe_at: DescribeValueAt, at: datetime, path: str, value: Any) -> str | None:
    return describe_at(path, value, at)


def describe_differences(
    before: Document | None, after: Document | None, describe_value: DescribeValue = _as_json
) -> list[str]:
    """Return one line for each difference: `production, rule 1, percentage: 25 → 50`."""
    sides = (_empty_like(after) if before is None else before, _empty_like(before) if after is None else after)
    differences = (difference for difference in find_differences(*sides) if difference["field"] not in _HEAD_FIELDS)
    lines = [_line(difference, describe_value) for difference in islice(differences, _MOST_LINES)]
    more = sum(1 for _ in differences)
    return [*lines, f"and {more:,} more differences"] if more else lines


def compare_documents(first: Document, second: Document, describe_value: DescribeValue) -> list[Comparison]:
    """Return the properties in which two versions differ."""
    differences = (each for each in find_differences(first, second) if each["field"] not in _HEAD_FIELDS)
    return [
        Comparison(describe_path(difference["field"]), *_both_sides(difference, describe_value))
        for difference in islice(differences, _MOST_LINES)
    ]


def _both_sides(difference: Mapping[str, Any], describe_value: DescribeValue) -> tuple[str, str]:
    path = difference["field"]
    if "added" not in difference:
        old, new = (_value(path, difference.get(side), describe_value, _words) for side in ("before", "after"))
        return old, new
    if not difference["added"] and not difference["removed"]:
        return "another order", "this order"
    return _alone(difference, "removed"), _alone(difference, "added")


def _alone(difference: Mapping[str, Any], name: str) -> str:
    """Return the elements of a list that only one version has."""
    number, shown = _counted(difference, name, _words)
    return f"{number:,} that the other lacks ({shown})" if number else "none that the other lacks"


def _empty_like(document: Document | None) -> Document:
    """Return a missing document with the same states, so that each is described separately."""
    states = (document or {}).get("states", {})
    return {"states": {name: {} for name in states}} if states else {}


def _line(difference: Mapping[str, Any], describe_value: DescribeValue) -> str:
    path = difference["field"]
    if "added" in difference:
        return f"{describe_path(path)}: {', '.join(_movements(difference)) or 'in another order'}"
    old, new = (_value(path, difference.get(side), describe_value, _json) for side in ("before", "after"))
    return f"{describe_path(path)}: {old} → {new}"


def _movements(difference: Mapping[str, Any]) -> Iterator[str]:
    """Yield how many elements a list gained and lost, with the first few of them."""
    for name in ("added", "removed"):
        if difference[name]:
            number, shown = _counted(difference, name, _json)
            yield f"{number:,} {name} ({shown})"


def _counted(difference: Mapping[str, Any], name: str, describe: Callable[[object], str]) -> tuple[int, str]:
    elements = difference[name]
    number = len(elements) + difference.get(f"more{name.capitalize()}", 0)
    shown = ", ".join(describe(element) for element in elements[:_MOST_ELEMENTS])
    return number, f"{shown}{', …' if number > _MOST_ELEMENTS else ''}"


def describe_path(path: str) -> str:
    """Return `production, rule 1, user ids` for `states.production.rules[0].userIds`."""
    return ", ".join(_describe_part(part) for part in path.removeprefix("states.").split("."))


def _describe_part(part: str) -> str:
    words = _capital.sub(lambda capital: f" {capital[0].lower()}", part)
    element = _element.match(words)
    return f"{element[1]} {int(element[2]) + 1}" if element else words


def _value(path: str, value: Any, describe_value: DescribeValue, describe: Callable[[object], str]) -> str:
    if value is None:
        return missing_values.get(path, "nothing")
    if isinstance(value, str) and (timestamp := _timestamp.fullmatch(value)):
        return f"{timestamp[1]} {timestamp[2]} UTC"
    return describe_value(path, value) or describe(value)


def _json(value: object) -> str:
    return _shortened(json.dumps(value, ensure_ascii=False))


def _words(value: object) -> str:
    """Return a value for a cell of a table, where quotes and brackets say nothing."""
    return _shortened(_in_words(value)) or "nothing"


def _in_words(value: object) -> str:
    """Return `flag: beta; variants: (on, off)` for `{"flag": "beta", "variants": ["on", "off"]}`."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return "; ".join(f"{_describe_part(name)}: {_inner_words(inner)}" for name, inner in value.items()) or "nothing"
    if isinstance(value, list):
        return ", ".join(map(_inner_words, value)) or "none"
    # The text "5" keeps its quotes, or it would read as the number.
    return value if isinstance(value, str) and not _literal.fullmatch(value) else json.dumps(value)


def _inner_words(value: object) -> str:
    words = _in_words(value)
    return f"({words})" if isinstance(value, Mapping | list) and value else words


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}…"
