"""Changes of configuration in words, for the pages of the admin and for webhooks.

`config.change_log.sentences` makes the sentences, and `config.change_log.entries` finds differences.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

from django.db.models import Case, F, Func, IntegerField, JSONField, Q, When
from django.utils import timezone
from django.utils.timesince import timesince

from config.change_log.entries import find_differences
from config.change_log.named_users import compares_users, fill, join, name_user, part_of, users_in
from config.change_log.sentences import (
    USER_IDS,
    KindWords,
    describe_element,
    describe_timestamp,
    describe_user,
    distinct,
    in_past,
    sentences,
    shortened,
    spaced,
    words_of,
)
from config.documents import Document, StoredJSONDecoder
from config.models import Change, ChangeQuerySet, kinds_of

_MAX_LINES = 200
_MAX_ELEMENTS = 5
_MAX_SUMMARY_LENGTH = 160
_MAX_READ_SIZE = 20_000
"""The bytes of a document that a list reads in whole."""
_VARIANTS_BY_USER = ("forcedVariants", "forced")
_LISTS_OF_USERS = (USER_IDS, *_VARIANTS_BY_USER)
_MAX_USERS = 10
_SIDES = ("before", "after")
_HEAD_FIELDS = frozenset({"id", "key"})  # shown above the differences

_element = re.compile(r"^(.*?)s?\[(\d+)\]$")
_rule = r"(?:states\..+\.)?rules\[\d+\]\."
_list_of_users = re.compile(rf"(?:{_rule})?{USER_IDS}")
_variants_by_user = re.compile(rf"{_rule}forced|forcedVariants")
_path_of_user = re.compile(rf"({_rule}forced|forcedVariants)\.(.+)", re.DOTALL)
_step = re.compile(r"(\w+)\[(\d+)\]")
_KINDS = {"api_key": "API key"}


@dataclass(frozen=True, slots=True)
class DescribedChange:
    """A change in words.

    `revert_address` is the page that restores the state after this change, if there is one. `users` are the ids of
    users that were added to lists or removed from them and that `lines` does not name, up to a limit. `more_users`
    counts the others.
    """

    change: Change
    action: str
    lines: Sequence[str]
    revert_address: str = ""
    users: Sequence[str] = ()
    more_users: int = 0

    @property
    def kind(self) -> str:
        return name_kind(self.change.object_kind)

    @property
    def summary(self) -> str:
        """Return one line: the first sentence, and the second one or the number of others."""
        if self.action != "changed" or not self.lines:
            return f"{self.action.capitalize()} the {self.kind}"
        first, number = self.lines[0], len(self.lines) - 1
        if number == 1 and len(first) + len(self.lines[1]) <= _MAX_SUMMARY_LENGTH:
            second = self.lines[1]
            return fill("{}; {}{}", first, second[0].lower(), part_of(second, 1))
        short = first if len(first) <= _MAX_SUMMARY_LENGTH else fill("{}…", part_of(first, 0, _MAX_SUMMARY_LENGTH))
        more = f"{number} more change{'' if number == 1 else 's'}"
        return fill("{}, and {}", short, more) if number else short

    @property
    def ago(self) -> str:
        if timezone.now() - self.change.at < timedelta(minutes=1):
            return "just now"
        return f"{timesince(self.change.at, depth=1)} ago"


@dataclass(frozen=True, slots=True)
class Comparison:
    """A property that differs between two versions of an object, with both values in words."""

    what: str
    first: str
    second: str

    @property
    def title(self) -> str:
        return fill("{}{}", self.what[:1].upper(), part_of(self.what, 1))


def describe_change(change: Change) -> DescribedChange:
    before, after = Counter(_users_in(change.before)), Counter(_users_in(change.after))
    lines = _describe(change, change.before, change.after)
    named = {user.user_id for line in lines for user in users_in(line)} if change.action == "changed" else ()
    users = sorted({*(before - after), *(after - before)}.difference(named))
    shown, more = users[:_MAX_USERS], max(0, len(users) - _MAX_USERS)
    return DescribedChange(change, change.action, lines, users=shown, more_users=more)


def _users_in(value: object) -> Iterator[str]:
    """Yield the ids of users in a document, such as those of a rule."""
    if isinstance(value, list):
        for element in value:
            if isinstance(element, Mapping):
                yield from _users_in(element)
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            if name in _LISTS_OF_USERS:
                yield from map(str, inner or ())
            else:
                yield from _users_in(inner)


class _StoredSize(Func):
    """The number of bytes of a document as it is stored."""

    function = "LENGTH"
    output_field = IntegerField()

    def as_postgresql(self, compiler: Any, connection: Any, **options: Any) -> Any:
        return self.as_sql(compiler, connection, function="pg_column_size", **options)


class _NumberListed(Func):
    """The number of user IDs that a document lists."""

    template = f"JSON_ARRAY_LENGTH(%(expressions)s, '$.{USER_IDS}')"
    output_field = IntegerField()

    def as_postgresql(self, compiler: Any, connection: Any, **options: Any) -> Any:
        template = f"JSONB_ARRAY_LENGTH(%(expressions)s -> '{USER_IDS}')"
        return self.as_sql(compiler, connection, template=template, **options)


def without_long_documents(changes: ChangeQuerySet, long_kinds: Collection[str]) -> ChangeQuerySet:
    """Prepare changes for `describe_change_briefly`, without long documents, which may have megabytes.

    Of a long document, the database only counts the user IDs.
    """
    may_be_long = Q(kind__in=[stored_kind for kind in long_kinds for stored_kind in kinds_of(kind)])
    sizes = {f"size_{side}": _StoredSize(side) for side in _SIDES}
    is_long = may_be_long & (Q(size_before__gt=_MAX_READ_SIZE) | Q(size_after__gt=_MAX_READ_SIZE))
    column = JSONField(decoder=StoredJSONDecoder)
    documents = {
        f"brief_{side}": Case(When(is_long, then=None), default=F(side), output_field=column) for side in _SIDES
    }
    numbers = {f"listed_{side}": Case(When(is_long, then=_NumberListed(side))) for side in _SIDES}
    changes = changes.defer(*_SIDES).alias(**sizes)
    return changes.annotate(
        is_creation=Q(before__isnull=True), is_deletion=Q(after__isnull=True), **documents, **numbers
    )


def describe_change_briefly(change: Any) -> DescribedChange:
    """Describe a change from `without_long_documents`. Of a long one, it says only how many users it lists."""
    action = "created" if change.is_creation else "deleted" if change.is_deletion else "changed"
    lines = _describe(change, change.brief_before, change.brief_after)
    before, after = change.listed_before, change.listed_after
    if None not in (before, after) and before != after:
        lines = [f"Changed the number of user IDs from {before:,} to {after:,}"]
    return DescribedChange(change, action, lines)


def _describe(change: Change, before: Document | None, after: Document | None) -> list[str]:
    return [in_past(line) for line in describe_differences(before, after, change.object_kind, change.at)]


def name_kind(kind: str) -> str:
    """Return the name of a kind of objects, such as `API key`."""
    return _KINDS.get(kind, kind.replace("_", " "))


def describe_differences(before: Document | None, after: Document | None, kind: str, at: datetime) -> list[str]:
    """Return a sentence for each difference, such as `Switch on in production`."""
    found = sentences(before, after, words_of(kind), at)
    lines = list(islice(found, _MAX_LINES))
    more = sum(1 for _ in found)
    return [*lines, f"and {more:,} more differences"] if more else lines


def compare_documents(first: Document, second: Document, kind: str, at: datetime) -> list[Comparison]:
    """Return the properties in which two versions of an object differ, in words. Schedules are described as of `at`."""
    words = words_of(kind)
    differences = (each for each in find_differences(first, second) if each["field"] not in _HEAD_FIELDS)
    return [
        Comparison(_name_path(difference["field"], words), *_both_sides(difference, (first, second), words, at))
        for difference in islice(differences, _MAX_LINES)
    ]


def _name_path(path: str, words: KindWords) -> str:
    """Return the name of a path. The path of a forced variant ends in the id of a user."""
    found = _path_of_user.fullmatch(path)
    name = describe_path(found[1] if found else path, words)
    return fill("{}, {}", name, name_user(found[2])) if found else name


def _both_sides(
    difference: Mapping[str, Any], documents: Sequence[Document], words: KindWords, at: datetime
) -> tuple[str, str]:
    path = difference["field"]
    names_users = bool(_list_of_users.fullmatch(path)) or all(_names_users_at(document, path) for document in documents)
    if "added" not in difference:
        old, new = (_value(path, difference.get(side), words, at, names_users=names_users) for side in _SIDES)
        return old, new
    if not difference["added"] and not difference["removed"]:
        return "another order", "this order"
    return _alone(difference, "removed", names_users=names_users), _alone(difference, "added", names_users=names_users)


def _names_users_at(document: Any, path: str) -> bool:
    """Return whether a path leads to the value of a condition that compares the ids of users."""
    if not path.endswith("].value") or path.startswith("states."):
        return False
    try:
        for name, index in _step.findall(path):
            document = document[name][int(index)]
        return compares_users(document)
    except (KeyError, IndexError, TypeError):
        return False  # only one version has the condition


def _alone(difference: Mapping[str, Any], name: str, *, names_users: bool) -> str:
    """Return the elements of a list that only one version has."""
    elements = difference[name]
    number = len(elements) + difference.get(f"more{name.capitalize()}", 0)
    shown = join(", ", map(describe_user if names_users else _element_words, elements[:_MAX_ELEMENTS]))
    more = ", …" if number > _MAX_ELEMENTS else ""
    return fill("{} that the other lacks ({}{})", f"{number:,}", shown, more) if number else "none that the other lacks"


def describe_path(path: str, words: KindWords) -> str:
    """Return `production, rule 1, user ids` for `states.production.rules[0].userIds`, and the label of a property."""
    if label := words.labels.get(path):
        return label.removeprefix("the ")
    return ", ".join(_describe_part(part) for part in path.removeprefix("states.").split("."))


def _describe_part(part: str) -> str:
    text = spaced(part)
    element = _element.match(text)
    return f"{element[1]} {int(element[2]) + 1}" if element else text


def _value(path: str, value: Any, words: KindWords, at: datetime, *, names_users: bool) -> str:
    if value is None:
        return words.missing.get(path, "nothing")
    if isinstance(value, str) and (moment := describe_timestamp(value)):
        return moment
    if described := words.describe_value(path, value, at):
        return described
    if names_users:
        return shortened(join(", ", map(describe_user, value if isinstance(value, list) else [value]))) or "none"
    if _variants_by_user.fullmatch(path) and isinstance(value, Mapping):
        variants = (fill("{}: {}", name_user(user), _inner_words(variant)) for user, variant in value.items())
        return shortened(join("; ", variants)) or "nothing"
    return _words(value)


def _words(value: object) -> str:
    """Return a value for a cell of a table, without quotes and brackets."""
    if isinstance(value, str):
        return distinct(shortened(value), value) if value else "nothing"
    return shortened(_in_words(value))


def _in_words(value: object) -> str:
    """Return `flag: beta; variants: (on, off)` for `{"flag": "beta", "variants": ["on", "off"]}`."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return "; ".join(f"{_describe_part(name)}: {_inner_words(inner)}" for name, inner in value.items()) or "nothing"
    if isinstance(value, list):
        return ", ".join(map(_element_words, value)) or "none"
    return distinct(value, value) if isinstance(value, str) else json.dumps(value)


def _inner_words(value: object) -> str:
    words = _in_words(value)
    return f"({words})" if isinstance(value, Mapping | list) and value else words


def _element_words(element: object) -> str:
    return describe_element(element) if isinstance(element, str) else _inner_words(element)
