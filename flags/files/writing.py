"""JSON values written as text: YAML in blocks, as people edit it, or JSON. `flags.files.parsing` reads it again."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from io import StringIO
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.events import (
    DocumentEndEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
    StreamStartEvent,
)
from ruamel.yaml.nodes import ScalarNode
from ruamel.yaml.resolver import VersionedResolver
from ruamel.yaml.tag import Tag

from flags.files.parsing import resolve

_STRING = Tag(suffix="tag:yaml.org,2002:str")
# Many readers still use YAML 1.1, where `yes` and `012` are not strings.
_old_readers = VersionedResolver(version=(1, 1))


def write(value: Any, form: str) -> str:
    """Return the value as text in the form `yaml` or `json`."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n" if form == "json" else _write_yaml(value)


def _write_yaml(value: Any) -> str:
    yaml = YAML(typ="safe", pure=True)
    yaml.width = sys.maxsize
    yaml.indent(mapping=2, sequence=4, offset=2)
    stream = StringIO()
    yaml.emit(_events(value), stream)
    return stream.getvalue().removesuffix("...\n")  # which ends a document that is a single scalar


def _events(value: Any) -> Iterator[Event]:
    yield StreamStartEvent()
    yield DocumentStartEvent(explicit=False)
    yield from _value_events(value, is_outermost=True)
    yield DocumentEndEvent(explicit=False)
    yield StreamEndEvent()


def _value_events(value: Any, *, is_outermost: bool = False) -> Iterator[Event]:
    match value:
        case dict():
            yield MappingStartEvent(None, None, True, flow_style=not value)
            for name, member in value.items():
                yield from _value_events(name)
                yield from _value_events(member)
            yield MappingEndEvent()
        case list():
            yield SequenceStartEvent(None, None, True, flow_style=not value)
            for element in value:
                yield from _value_events(element)
            yield SequenceEndEvent()
        case str():
            tag = _old_readers.resolve(ScalarNode, value, (True, False))
            style = '"' if is_outermost else _style(value)
            yield ScalarEvent(None, _STRING, (tag == _STRING, True, True), value, style=style)
        case _:
            yield ScalarEvent(None, None, (True, False, False), _scalar(value))


def _style(text: str) -> str | None:
    """Return the sign of quotes or of a block, or None to let the library choose."""
    lines = text.split("\n")
    if not all(map(str.isprintable, lines)) or not isinstance(resolve(text), str):
        return '"'
    return "|" if len(lines) > 1 else None


def _scalar(value: Any) -> str:
    """Return a number, a boolean or null so that YAML 1.1 reads it, too: it has 1.0e+16, but not 1e+16."""
    text = json.dumps(value)
    return text.replace("e", ".0e") if isinstance(value, float) and "." not in text else text
