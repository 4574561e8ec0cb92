"""JSON values as text: YAML in blocks, as people edit it, or JSON. `yaml_parts` and `json_parts` read it again."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

_plain = re.compile(r"[^\W\d_](?:[\w ,./()'@%&+=-]*[\w./()'@%&+=-])?")
# What readers of YAML 1.1 take for something else than a string.
_RESERVED = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
_escaped = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")
_unfit_for_a_block = re.compile("[^\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")
_LONGEST_NAME = 100

VERSION = 1
"""Of the files that are written and read here."""


def write(value: Any, form: str) -> str:
    """The value in the form `yaml` or `json`."""
    return write_json(value) if form == "json" else write_yaml(value)


def write_json(value: Any) -> str:
    """The value as JSON in lines."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def write_yaml(value: Any) -> str:
    """The value as YAML in blocks; what another reader might take for something else stands in quotes."""
    return "\n".join(_lines(value)) + "\n"


def _lines(value: Any) -> Iterator[str]:
    """The lines of a value that begins a line."""
    if not _has_parts(value):
        yield from _scalar_lines(value)
    elif isinstance(value, dict):
        for name, member in value.items():
            yield from _member(name, member)
    else:
        for element in value:
            yield from _element(element)


def _member(name: str, value: Any) -> Iterator[str]:
    head = f"{_string(name)}:"
    if len(head) > _LONGEST_NAME:  # YAML finds no longer ones without a mark
        yield f"? {_string(name)}"
        head = ":"
    if _has_parts(value):
        yield head
        yield from (_indented(line) for line in _lines(value))
    else:
        yield from _after(head, _scalar_lines(value))


def _element(value: Any) -> Iterator[str]:
    if _has_parts(value):
        first, *more = _lines(value)
        yield f"- {first}"
        yield from map(_indented, more)
    else:
        yield from _after("-", _scalar_lines(value))


def _after(mark: str, lines: Iterator[str]) -> Iterator[str]:
    yield f"{mark} {next(lines)}"
    yield from lines


def _indented(line: str) -> str:
    return f"  {line}" if line else line


def _has_parts(value: Any) -> bool:
    return isinstance(value, dict | list) and bool(value)


def _scalar_lines(value: Any) -> Iterator[str]:
    if not isinstance(value, str):
        yield json.dumps(value)
    elif _fits_a_block(value):
        yield "|-"
        yield from map(_indented, value.split("\n"))
    else:
        yield _string(value)


def _fits_a_block(text: str) -> bool:
    """Whether a text of several lines reads the same as it looks: not where spaces or empty lines bear on it."""
    lines = text.split("\n")
    return (
        len(lines) > 1
        and not _unfit_for_a_block.search(text)
        and bool(lines[0] and lines[-1])
        and not lines[0].startswith(" ")
        and not any(line.endswith(" ") for line in lines)
    )


def _string(text: str) -> str:
    if _plain.fullmatch(text) and text.lower() not in _RESERVED and not _escaped.search(text):
        return text
    quoted = json.dumps(text, ensure_ascii=False)
    return _escaped.sub(lambda found: f"\\u{ord(found[0]):04x}", quoted)
