"""JSON as parts. The standard library says whether it is JSON; here its lines are found."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from json import decoder

from flags.files.parts import Kind, Part, UnreadableText

_between = re.compile(r"[ \t\n\r,:]*")
_literal = re.compile(r'[^ \t\n\r,:\[\]{}"]+')
_read_string: Callable[[str, int], tuple[str, int]] = vars(decoder)["scanstring"]  # which has no stub
_KINDS = {"{": Kind.OBJECT, "[": Kind.LIST, "}": Kind.END, "]": Kind.END}


def parts(text: str) -> Iterator[Part]:
    """Yield the parts of a JSON text. Raises UnreadableText."""
    if not text.strip():
        return
    try:
        json.loads(text, parse_int=len, parse_float=len)
    except json.JSONDecodeError as error:
        raise UnreadableText(error.lineno, f"Is not JSON: {error.msg[0].lower()}{error.msg[1:]}.") from error
    except RecursionError:
        pass  # whoever puts the parts together refuses what is nested long before that
    yield from _parts(text)


def _parts(text: str) -> Iterator[Part]:
    at, line, end = 0, 1, len(text)
    while True:
        found = _between.match(text, at)
        assert found is not None  # noqa: S101 (it matches nothing as well)
        line += found[0].count("\n")
        at = found.end()
        if at == end:
            return
        character = text[at]
        if kind := _KINDS.get(character):
            yield Part(kind, line)
            at += 1
        elif character == '"':
            value, at = _read_string(text, at + 1)
            yield Part(Kind.TEXT, line, value)
        else:
            found = _literal.match(text, at)
            assert found is not None  # noqa: S101 (the character is none of the others)
            if found[0] in ("NaN", "Infinity", "-Infinity"):
                raise UnreadableText(line, f"Is not JSON: {found[0]} is no number there.")
            yield Part(Kind.LITERAL, line, found[0])
            at = found.end()
