"""Differences between two documents as sentences that a person would say: `Change the owner from ada to bob`.

A sentence asks for a change, for pages that ask before it. `in_past` turns it into what was done, for the history. The
admin of each app adds the words of its kinds of objects to `kind_words`. This module is pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from config.change_log.named_users import fill, join, name_user, part_of
from config.documents import Document, is_identical, is_same, surplus
from config.timestamps import parse_timestamp

_MAX_ELEMENTS = 5
_MAX_VALUE_LENGTH = 300
_HEAD_FIELDS = frozenset({"id", "key"})  # shown above the sentences
_EMPTY: tuple[object, ...] = (None, "", [], {})
_timestamp = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_separator = re.compile("[,;]")
# Words show these values without quotes, so a text that looks like one of them needs quotes.
_literal = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d+)?|true|false|null|yes|no|none|nothing")
_quoted = re.compile("“.*”", re.DOTALL)
_capital = re.compile(r"(?<=[a-z])[A-Z]")

USER_IDS = "userIds"
"""The property of rules and segments that lists users."""

DescribeValue = Callable[[str, Any, datetime], str | None]
"""Describes the value at a path such as `rules[0]`, at a time; None if the value needs no words."""

Sentences = Callable[[Any, Any, datetime], Iterator[str]]
"""Yields sentences for a property that changed from one value to another. None stands for no value."""

Headline = Callable[[Document, Document, datetime], tuple[Sequence[str], Collection[str]]]
"""Returns sentences that sum up a change, and the properties that need no sentences beside them."""


def _as_it_is(_path: str, _value: Any, _at: datetime) -> None:
    return None


def _no_headline(_before: Document, _after: Document, _at: datetime) -> tuple[Sequence[str], Collection[str]]:
    return (), ()


@dataclass(frozen=True, slots=True)
class KindWords:
    """The words for changes of one kind of object.

    `labels` names properties within a sentence. Properties in `sentences` come first, with sentences of their own.
    `missing` says what a property means that is left out of a document.
    """

    labels: Mapping[str, str] = field(default_factory=dict)
    describe_value: DescribeValue = _as_it_is
    sentences: Mapping[str, Sentences] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
    headline: Headline = _no_headline


kind_words: dict[str, KindWords] = {}
"""The words of each kind of object."""

_NO_WORDS = KindWords()


def words_of(kind: str) -> KindWords:
    return kind_words.get(kind, _NO_WORDS)


def sentences(before: Document | None, after: Document | None, words: KindWords, at: datetime) -> Iterator[str]:
    """Yield the sentences of a change. A missing document stands for a new or a deleted object."""
    old, new = before or {}, after or {}
    summary, covered = words.headline(old, new, at) if before and after else ((), ())
    yield from summary
    hidden = _HEAD_FIELDS.union(covered)
    for name in dict.fromkeys([*words.sentences, *old, *new]):
        if name not in hidden and not is_identical(old.get(name), new.get(name)):
            say = words.sentences.get(name)
            yield from (say or _plainly(name, words))(old.get(name), new.get(name), at)


def _plainly(name: str, words: KindWords) -> Sentences:
    """Return the sentences for a property that has none of its own."""
    label, missing = words.labels.get(name, f"the {spaced(name)}"), words.missing.get(name, "")

    def say(old: Any, new: Any, at: datetime) -> Iterator[str]:
        if _is_list(old) and _is_list(new) and words.describe_value(name, old or new, at) is None:
            describe = describe_user if name == USER_IDS else describe_element
            yield from list_sentences(label, old or [], new or [], describe)
        else:
            before, after = (
                missing if value in _EMPTY else describe_value(words, name, value, at) for value in (old, new)
            )
            yield from change_sentence(label, before, after)

    return say


def _is_list(value: Any) -> bool:
    if value is None:
        return True
    return isinstance(value, list) and not any(isinstance(element, (dict, list)) for element in value)


def change_sentence(label: str, old: str, new: str) -> Iterator[str]:
    """Yield the sentence of a change between two values in words. An empty string is no value."""
    if old == new:
        if old:
            yield f"Change the details of {label}"
    elif not old:
        yield fill("Set {} to {}", label, new)
    elif not new:
        yield fill("Remove {}: {}", label, old)
    else:
        yield fill("Change {} from {} to {}", label, old, new)


def describe_element(element: Any) -> str:
    """Return a plain value as one element of a list."""
    return listed(distinct(shortened(element), element)) if isinstance(element, str) else plain(element)


def describe_user(user_id: Any) -> str:
    """Return the id of an application's user as one element of a list, or a value that is no id."""
    if not isinstance(user_id, str):
        return no_user(user_id, plain(user_id))
    return listed(distinct(shortened(name_user(user_id)), user_id, is_always_text=True))


def no_user(value: Any, words: str) -> str:
    """Return a value that a condition compares with ids: `the number 5`. It matches nobody, because ids are strings."""
    return f"the {'value' if isinstance(value, bool) else 'number'} {words}"


def list_sentences(
    label: str, old: Sequence[Any], new: Sequence[Any], describe: Callable[[Any], str] = describe_element
) -> Iterator[str]:
    """Yield what a list of plain values gains and loses: `Add ada and bob to the groups`."""
    added, removed = surplus(new, old), surplus(old, new)
    if added:
        yield fill("Add {} to {}", some(added, describe), label)
    if removed:
        yield fill("Remove {} from {}", some(removed, describe), label)
    if not added and not removed and not is_same(old, new):
        yield f"Change the order of {label}"


def some(elements: Sequence[Any], describe: Callable[[Any], str] = describe_element) -> str:
    """Return `ada, bob and cy`, or if they are many, `1,204 (ada, bob, ...)`."""
    shown = [describe(element) for element in elements[:_MAX_ELEMENTS]]
    if len(elements) > _MAX_ELEMENTS:
        return fill("{} ({}, …)", f"{len(elements):,}", join(", ", shown))
    return join(" and ", filter(None, (join(", ", shown[:-1]), shown[-1])))


def listed(text: str) -> str:
    """Return an element of a list, in quotes if it would read as several: `“DE, FR”`."""
    return fill("“{}”", text) if _separator.search(text) and not _quoted.fullmatch(text) else text


def distinct(shown: str, text: str, *, is_always_text: bool = False) -> str:
    """Return `shown` in quotes if `text` would read as another value: `“5”`, `“yes”` or `“ ”`.

    `is_always_text`: the value can only be a string, so one that looks like a number needs no quotes.
    """
    has_clear_ends = text and text == text.strip() and not _quoted.fullmatch(text)
    is_clear = has_clear_ends and (is_always_text or not _literal.fullmatch(text))
    return shown if is_clear else fill("“{}”", shown)


def describe_value(words: KindWords, path: str, value: Any, at: datetime) -> str:
    """Return a value in the words of its kind, or else plainly."""
    return words.describe_value(path, value, at) or plain(value)


def plain(value: Any) -> str:
    """Return a value as a person writes it: a date and time, `yes` or `no`, `1,204`, or a string in quotes."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return f"{value:,}"
    if isinstance(value, str):
        return describe_timestamp(value) or f"“{shortened(value)}”"
    if isinstance(value, list) and _is_list(value):
        return some(value) if value else "none"
    return shortened(json.dumps(value, ensure_ascii=False))


def describe_timestamp(text: str) -> str:
    """Return `26 Nov 2026, 09:00 UTC`, with seconds unless they are 0; an empty string for any other text."""
    if not _timestamp.fullmatch(text):
        return ""
    at = parse_timestamp(text).astimezone(UTC)
    seconds = f":{at:%S}" if at.second else ""
    return f"{at.day} {at:%b} {at.year}, {at:%H:%M}{seconds} UTC"


def shortened(text: str) -> str:
    return text if len(text) <= _MAX_VALUE_LENGTH else fill("{}…", part_of(text, 0, _MAX_VALUE_LENGTH))


def spaced(name: str) -> str:
    """Return `off variant` for `offVariant`."""
    return _capital.sub(lambda capital: f" {capital[0].lower()}", name)


_IRREGULAR = {
    **{"Set": "Set", "Let": "Let", "Make": "Made", "Hide": "Hid", "Take": "Took", "Stop": "Stopped"},
    "Stop the experiment and ship": "Stopped the experiment and shipped",
}
_verb = re.compile(r"Stop the experiment and ship\b|[A-Z][a-z]+")


def in_past(sentence: str) -> str:
    """Return a sentence in the past tense: `Switched off in production` for `Switch off in production`."""
    verb = _verb.match(sentence)
    return fill("{}{}", _past_of(verb[0]), part_of(sentence, verb.end())) if verb else sentence


def _past_of(verb: str) -> str:
    return _IRREGULAR.get(verb) or f"{verb}{'d' if verb.endswith('e') else 'ed'}"


def on_change(switch_on: str, switch_off: str) -> Sentences:
    """Return the sentences of a property that is true or false, or present or absent."""

    def say(old: Any, new: Any, _at: datetime) -> Iterator[str]:
        if bool(old) is not bool(new):
            yield switch_on if new else switch_off

    return say
