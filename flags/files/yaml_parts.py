"""YAML as parts: the part of it that says what JSON can say. Anchors, tags and further documents are refused."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import yaml

from flags.files.parts import Kind, Part, UnreadableText

# libyaml where PyYAML was built with it: ten times as fast, and the same parts.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_unprintable = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")


def parts(text: str) -> Iterator[Part]:
    """Yield the parts of a YAML text. Raises UnreadableText."""
    if found := _unprintable.search(text):
        line = text.count("\n", 0, found.start()) + 1
        raise UnreadableText(line, f'Has a character that YAML does not take; write it as "\\u{ord(found[0]):04x}".')
    try:
        yield from _parts(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        told = ", ".join(filter(None, (error.context, error.problem)))
        raise UnreadableText(mark.line + 1 if mark else 1, f"Is not YAML: {told}.") from error
    except yaml.YAMLError as error:
        raise UnreadableText(1, f"Is not YAML: {error}.") from error


def _parts(text: str) -> Iterator[Part]:
    documents = 0
    events: Iterator[Any] = yaml.parse(text, Loader=_LOADER)
    for event in events:
        line = event.start_mark.line + 1
        match event:
            case yaml.DocumentStartEvent():
                documents += 1
                if documents > 1:
                    raise UnreadableText(line, "Begins a second document; a file has one.")
            case yaml.AliasEvent():
                raise UnreadableText(line, f"Has an alias, *{event.anchor}; write out what it stands for.")
            case yaml.NodeEvent():
                yield _part(event, line)
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                yield Part(Kind.END, line)


def _part(event: Any, line: int) -> Part:
    if event.anchor is not None:
        raise UnreadableText(line, f"Has an anchor, &{event.anchor}; write out what it stands for where it is used.")
    if event.tag is not None:
        raise UnreadableText(line, f"Has a tag, {event.tag}; leave it out, for values are those of JSON.")
    match event:
        case yaml.MappingStartEvent():
            return Part(Kind.OBJECT, line)
        case yaml.SequenceStartEvent():
            return Part(Kind.LIST, line)
    if event.style:
        return Part(Kind.TEXT, line, event.value)
    if not event.value:
        raise UnreadableText(line, 'Has no value here; write null, "", [] or {}, or leave it out.')
    return Part(Kind.LITERAL, line, event.value)
