"""JSON values put together from the parts of a text, with the line of each: what YAML and JSON files have in common.

Not here: how a text is taken to parts (`yaml_parts`, `json_parts`), and what a value means (`reading`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, NamedTuple

MAX_DEPTH = 64

_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?", re.ASCII)
_WORDS = {"true": True, "false": False, "null": None}
_LONGEST_INTEGER = 20
_index = re.compile(r"\[(\d+)\]")


class Kind(Enum):
    OBJECT = auto()
    LIST = auto()
    END = auto()
    TEXT = auto()
    """A string, or the name of a member."""
    LITERAL = auto()
    """Text without quotes: a number, true, false, null, or else a string."""


class Part(NamedTuple):
    kind: Kind
    line: int
    text: str = ""


class Defect(NamedTuple):
    """What is wrong with a text, and in which line, counted from 1."""

    line: int
    message: str


class UnreadableText(Exception):
    """Nothing can be read after this defect."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.defect = Defect(line, message)


@dataclass(slots=True)
class Lines:
    """The line of a value, or of its name, and those of the members or elements in it."""

    line: int
    inner: Any = None
    """Those of an object by name, or those of a list."""

    def of(self, path: str) -> int:
        """The line of what a path such as `flags[3].rules[0].type` names, or of the innermost part that there is."""
        found, rest = self, path
        while rest:
            step = _step(found.inner, rest)
            if step is None:
                break
            found, rest = step
        return found.line


@dataclass(slots=True)
class Text:
    """What a text says, with its lines, and what is wrong with it although it can be read."""

    value: Any
    lines: Lines
    defects: list[Defect]


@dataclass(slots=True)
class _Open:
    """An object or a list that has not ended yet; `name` is that of the member whose value comes next."""

    value: Any
    lines: Lines
    name: str | None = None
    name_line: int = 0


def put_together(parts: Iterable[Part]) -> Text:
    """Build the one value that the parts make. Raises UnreadableText where it is nested too deeply, or not there."""
    defects: list[Defect] = []
    outermost = _Open([], Lines(1, []))
    opened = [outermost]
    for part in parts:
        top = opened[-1]
        if part.kind is Kind.END:
            opened.pop()
        elif isinstance(top.value, dict) and top.name is None:
            _take_name(top, part, defects)
        else:
            value, inner = _begin(part, defects)
            if not isinstance(value, dict | list):
                _add(top, value, Lines(part.line))
                continue
            if len(opened) > MAX_DEPTH:
                raise UnreadableText(part.line, f"Must not be nested deeper than {MAX_DEPTH} levels.")
            lines = Lines(part.line, inner)
            _add(top, value, lines)
            opened.append(_Open(value, lines))
    if not outermost.value:
        raise UnreadableText(1, "Is empty.")
    return Text(outermost.value[0], outermost.lines.inner[0], defects)


def resolve(text: str) -> Any:
    """The value of a text without quotes, by the rules of JSON; what is nothing else is a string."""
    if text in _WORDS:
        return _WORDS[text]
    if not _NUMBER.fullmatch(text):
        return text
    if text.lstrip("-").isdigit():
        return int(text[: _LONGEST_INTEGER + 2])  # enough digits to be recognised as too many
    return float(text)


def _begin(part: Part, defects: list[Defect]) -> tuple[Any, Any]:
    match part.kind:
        case Kind.OBJECT:
            return {}, {}
        case Kind.LIST:
            return [], []
        case Kind.LITERAL:
            value = resolve(part.text)
        case _:
            value = part.text
    defects += (Defect(part.line, message) for message in _defects(value))
    return value, None


def _take_name(top: _Open, part: Part, defects: list[Defect]) -> None:
    if part.kind in (Kind.OBJECT, Kind.LIST):
        raise UnreadableText(part.line, "The name of a member must be a string.")
    if part.text in top.value:
        defects.append(Defect(part.line, f'The name "{part.text[:50]}" stands here twice; leave one of them out.'))
    defects += (Defect(part.line, message) for message in _defects(part.text))
    top.name, top.name_line = part.text, part.line


def _add(top: _Open, value: Any, lines: Lines) -> None:
    if top.name is None:
        top.value.append(value)
        top.lines.inner.append(lines)
        return
    lines.line = top.name_line
    top.value[top.name] = value
    top.lines.inner[top.name] = lines
    top.name = None


def _defects(value: Any) -> Iterator[str]:
    """What no value may be, although a text can say it: databases and JSON answers cannot carry it."""
    match value:
        case str():
            if "\0" in value:
                yield "Must not contain the character U+0000."
            if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
                yield "Must not contain half of a surrogate pair."
        case int() if not -(2**63) <= value < 2**64:
            yield "Must be an integer of at most 64 bits; write longer ones as text."
        case float() if not math.isfinite(value):
            yield "Must be a number that is not as large as this."


def _step(inner: Any, path: str) -> tuple[Lines, str] | None:
    """Follow the first step of a path. Names may have dots in them, so the longest that fits is taken."""
    if not inner:
        return None
    if isinstance(inner, dict):
        rest = path.removeprefix(".")
        fitting = (name for name in inner if rest == name or rest.startswith((f"{name}.", f"{name}[")))
        name = max(fitting, key=len, default=None)
        return None if name is None else (inner[name], rest[len(name) :])
    found = _index.match(path)
    if found is None or int(found[1]) >= len(inner):
        return None
    return inner[int(found[1])], path[found.end() :]
