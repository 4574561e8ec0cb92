"""Strings that remember which of their parts are ids of an application's users, so that pages can link them.

They are ordinary strings everywhere else. f-strings and `str.join` lose the ids, which costs only the link. `fill`,
`join` and `part_of` keep the ids. This module is pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

_COMPARING = frozenset({"equals", "notEquals", "in", "notIn"})


class NamedUser(NamedTuple):
    """The part of a string that names a user, and the id, which may be longer than that part."""

    start: int
    end: int
    user_id: str


class Words(str):
    """A string that names users."""

    __slots__ = ("users",)
    users: tuple[NamedUser, ...]

    def __new__(cls, text: str, users: Iterable[NamedUser] = ()) -> Words:
        words = super().__new__(cls, text)
        words.users = tuple(users)
        return words


def name_user(user_id: str, shown: str | None = None) -> Words:
    """Return the id of a user, or a shorter form of it, as a string that names the user."""
    text = user_id if shown is None else shown
    return Words(text, [NamedUser(0, len(text), user_id)])


def users_in(text: str) -> Sequence[NamedUser]:
    """Return the users that a string names, in order."""
    return text.users if isinstance(text, Words) else ()


def join(separator: str, texts: Iterable[str]) -> str:
    parts = list(texts)
    joined = separator.join(parts)
    return Words(joined, _moved(parts, len(separator))) if _name_users(parts) else joined


def _name_users(texts: Iterable[str]) -> bool:
    return Words in map(type, texts)  # a fast test, because most of thousands of texts name none


def _moved(parts: Sequence[str], gap: int) -> Iterator[NamedUser]:
    start = 0
    for part in parts:
        for user in users_in(part):
            yield NamedUser(start + user.start, start + user.end, user.user_id)
        start += len(part) + gap


def fill(template: str, *values: str) -> str:
    """Return the template with each `{}` replaced by the next value. Never put user input into a template."""
    if not _name_users(values):
        return template.format(*values)
    first, *others = template.split("{}")
    pairs = zip(values, others, strict=True)
    return join("", [first, *(text for pair in pairs for text in pair)])


def part_of(text: str, start: int, end: int | None = None) -> str:
    """Return `text[start:end]`, where neither is negative."""
    part = text[start:end]
    users = [
        NamedUser(max(0, user.start - start), min(len(part), user.end - start), user.user_id)
        for user in users_in(text)
        if user.end > start and user.start < start + len(part)
    ]
    return Words(part, users) if users else part


def split_at_users(text: str) -> Iterator[tuple[str, str | None]]:
    """Yield the parts of a string in order, each with the id of the user that it names, or None."""
    position, plain = 0, str(text)
    for user in users_in(text):
        yield plain[position : user.start], None
        yield plain[user.start : user.end], user.user_id
        position = user.end
    yield plain[position:], None


def compares_users(condition: Mapping[str, Any]) -> bool:
    """Return whether the value of a condition is the whole id of a user, or a list of such ids."""
    return condition.get("attribute") == "userId" and condition.get("operator") in _COMPARING
