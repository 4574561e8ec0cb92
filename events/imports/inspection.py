"""What looks wrong in the records of a file, although each of them is valid."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from events.removal import format_count

MAX_SHOWN = 20
"""So many properties are listed one by one."""
_MAX_LENGTH = 40
"""A longer text is no number."""
_BLANKS = re.compile(r"[\s\u200b-\u200d\u2060\ufeff]+")
"""All blanks of Unicode, and characters without a width."""
_plain = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d+)?")
"""Numbers that may be texts on purpose, such as postcodes."""
_number = re.compile(
    r"\s*[+-]?(\d+(\.\d*)?|[.,]\d+|\d+,\d+|\d{1,3}([,.'\u2019 \u00a0\u202f]\d{3})+([.,]\d+)?)([eE][+-]?\d+)?\s*"
    r"|\s*[+-]?(nan|inf|infinity)\s*",
    re.IGNORECASE,
)


@dataclass(slots=True)
class _Property:
    """The values of a property that are numbers, and the texts that look like one."""

    has_numbers: bool = False
    texts: int = 0
    is_suspicious: bool = False
    """Whether one of the texts is hardly a text on purpose, such as `+3`."""
    example: str = ""
    line: int = 0


class Inspection:
    """Looks at the users and properties of a file. Ids are kept on disk, because memory may be too small for them."""

    def __init__(self) -> None:
        self._properties: dict[str, _Property] = {}
        self._database = sqlite3.connect("", isolation_level=None)  # a file that is deleted on close
        self._database.execute("PRAGMA journal_mode = OFF")
        self._database.execute("CREATE TABLE users (folded TEXT PRIMARY KEY, id TEXT, other TEXT) WITHOUT ROWID")
        self._database.execute("BEGIN")

    def __enter__(self) -> Inspection:
        return self

    def __exit__(self, *_: object) -> None:
        self._database.close()

    def add(self, records: Iterable[tuple[int, str, Mapping[str, Any]]]) -> None:
        """Look at some records: the line, the id of the user, and the properties of each."""
        users: dict[str, None] = {}
        for line, user_id, properties in records:
            users[user_id] = None
            for name, value in properties.items():
                kind = type(value)
                if kind is str:
                    if len(value) <= _MAX_LENGTH and _number.fullmatch(value):
                        self._add_text(name, value, line)
                elif kind is int or kind is float:
                    seen = self._properties.get(name)
                    if seen is None or not seen.has_numbers:
                        self._property(name).has_numbers = True
        self._database.executemany(
            "INSERT INTO users VALUES (?, ?, NULL) ON CONFLICT (folded) DO UPDATE SET other = excluded.id "
            "WHERE other IS NULL AND id <> excluded.id",
            ((fold(user_id), user_id) for user_id in users),
        )

    def _property(self, name: str) -> _Property:
        return self._properties.setdefault(name, _Property())

    def _add_text(self, name: str, value: str, line: int) -> None:
        seen, is_suspicious = self._property(name), _plain.fullmatch(value) is None
        if not seen.texts or (is_suspicious and not seen.is_suspicious):
            seen.example, seen.line = value, line
        seen.texts += 1
        seen.is_suspicious |= is_suspicious

    def warnings(self, noun: str) -> Iterator[str]:
        """Yield what looks wrong, in sentences. `noun` is what the file calls a property."""
        wrong = {
            name: seen
            for name, seen in self._properties.items()
            if seen.is_suspicious or (seen.texts and seen.has_numbers)
        }
        for name, seen in [*wrong.items()][:MAX_SHOWN]:
            texts = format_count(seen.texts, "text")
            yield (
                f'{noun} {name}: {texts} in place of numbers, such as "{seen.example}" in line {seen.line:,}. '
                "A text is never added up, and meets no comparison with a number."
            )
        if len(wrong) > MAX_SHOWN:
            yield f"and {len(wrong) - MAX_SHOWN:,} more"
        yield from self._similar_ids()

    def _similar_ids(self) -> Iterator[str]:
        similar = "FROM users WHERE other IS NOT NULL"
        [(number,)] = self._database.execute(f"SELECT COUNT(*) {similar}").fetchall()
        if number:
            [(one, other)] = self._database.execute(f"SELECT id, other {similar} ORDER BY folded LIMIT 1").fetchall()
            users, differ = format_count(number, "user id"), "differs" if number == 1 else "differ"
            yield (
                f'{users} {differ} from another one in blanks or case alone, such as "{one}" and "{other}". They '
                "count as different users."
            )


def fold(user_id: str) -> str:
    """Return an id without blanks, and without the difference between upper and lower case."""
    return _BLANKS.sub("", user_id).casefold()
