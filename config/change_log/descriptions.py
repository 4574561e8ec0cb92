"""Changes of configuration in words, for the pages that people read. `config.change_log.history` finds what differs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from typing import Any

from django.db.models import Case, F, JSONField, Q, When
from django.utils import timezone
from django.utils.timesince import timesince

from config.change_log.history import tell
from config.documents import Document, StoredJSONDecoder
from config.models import Change, ChangeQuerySet

_MOST_LINES = 200
_SHOWN_ELEMENTS = 5
_LONGEST_VALUE = 300
_UNTOLD = frozenset({"id", "key"})  # they stand in the head of what is told

Words = Callable[[str, Any], str | None]
"""Given a path such as `rules[0]` and the value there: how it reads, or None where JSON says it as well."""

_capital = re.compile(r"(?<=[a-z])[A-Z]")
_element = re.compile(r"^(.*?)s?\[(\d+)\]$")


def _no_words(_path: str, _value: Any) -> str | None:
    return None


vocabulary: dict[str, Words] = {}
"""By kind of object, how its values read."""


@dataclass(frozen=True, slots=True)
class ToldChange:
    """A change in words. `revert_address`: where one may go back to how things stood after it."""

    change: Change
    action: str
    lines: Sequence[str]
    revert_address: str = ""

    @property
    def kind(self) -> str:
        return self.change.kind.replace("_", " ")

    @property
    def summary(self) -> str:
        """One line for where there is room for no more."""
        if self.action != "changed":
            return self.action
        more = f" and {len(self.lines) - 1} more" if len(self.lines) > 1 else ""
        return f"{self.lines[0][:140]}{more}" if self.lines else "changed"

    @property
    def ago(self) -> str:
        return (
            "just now"
            if timezone.now() - self.change.at < timedelta(minutes=1)
            else f"{timesince(self.change.at, depth=1)} ago"
        )


def told(change: Change) -> ToldChange:
    return ToldChange(change, change.action, _lines(change, change.before, change.after))


def in_brief(changes: ChangeQuerySet, long_kinds: Collection[str]) -> ChangeQuerySet:
    """Changes for `told_in_brief`: the documents of kinds that may hold megabytes are not read."""
    is_short = ~Q(kind__in=long_kinds)
    column = JSONField(decoder=StoredJSONDecoder)
    documents = {
        f"brief_{side}": Case(When(is_short, then=F(side)), output_field=column) for side in ("before", "after")
    }
    return changes.defer("before", "after").annotate(
        is_creation=Q(before__isnull=True), is_deletion=Q(after__isnull=True), **documents
    )


def told_in_brief(change: Any) -> ToldChange:
    action = "created" if change.is_creation else "deleted" if change.is_deletion else "changed"
    return ToldChange(change, action, _lines(change, change.brief_before, change.brief_after))


def _lines(change: Change, before: Document | None, after: Document | None) -> list[str]:
    return describe(before, after, vocabulary.get(change.kind, _no_words))


def describe(before: Document | None, after: Document | None, words: Words = _no_words) -> list[str]:
    """Say each difference in one line: `production, rule 1, percentage: 25 → 50`."""
    sides = (_hollow(after) if before is None else before, _hollow(before) if after is None else after)
    found = (each for each in tell(*sides) if each["field"] not in _UNTOLD)
    lines = [_line(each, words) for each in islice(found, _MOST_LINES)]
    more = sum(1 for _ in found)
    return [*lines, f"and {more:,} more differences"] if more else lines


def _hollow(document: Document | None) -> Document:
    """What stands in the place of a document that is not there, so that each of the states is told by itself."""
    states = (document or {}).get("states", {})
    return {"states": {name: {} for name in states}} if states else {}


def _line(difference: Mapping[str, Any], words: Words) -> str:
    path = difference["field"]
    if "added" in difference:
        return f"{in_words(path)}: {', '.join(_movements(difference)) or 'in another order'}"
    old, new = (_value(path, difference.get(side), words) for side in ("before", "after"))
    return f"{in_words(path)}: {old} → {new}"


def _movements(difference: Mapping[str, Any]) -> Iterator[str]:
    """How many elements a list has gained and lost, with the first of them."""
    for name in ("added", "removed"):
        elements = difference[name]
        if elements:
            number = len(elements) + difference.get(f"more{name.capitalize()}", 0)
            shown = ", ".join(_text(each) for each in elements[:_SHOWN_ELEMENTS])
            yield f"{number:,} {name} ({shown}{', …' if number > _SHOWN_ELEMENTS else ''})"


def in_words(path: str) -> str:
    """Say where something stands: `states.production.rules[0].userIds` is `production, rule 1, user ids`."""
    return ", ".join(_name(part) for part in path.removeprefix("states.").split("."))


def _name(part: str) -> str:
    spaced = _capital.sub(lambda capital: f" {capital[0].lower()}", part)
    found = _element.match(spaced)
    return f"{found[1]} {int(found[2]) + 1}" if found else spaced


def _value(path: str, value: Any, words: Words) -> str:
    return "nothing" if value is None else words(path, value) or _text(value)


def _text(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}…"
