"""YAML and JSON: text is parsed into values with their lines, and values are written as people edit them.

YAML is limited to what JSON can express. `importing` decides what the values mean.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from io import StringIO
from pathlib import PurePath
from typing import Any, NamedTuple

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentEndEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
    StreamStartEvent,
)
from ruamel.yaml.nodes import ScalarNode
from ruamel.yaml.resolver import VersionedResolver
from ruamel.yaml.tag import Tag

FORMS = ("yaml", "json")
MAX_DEPTH = 64

_FORMS_BY_SUFFIX = {".yaml": "yaml", ".yml": "yaml", ".json": "json"}
_WORDS = {"true": True, "false": False, "null": None}
_DIGITS_READ = 22  # enough to recognise an integer of more than 64 bits
_number = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?", re.ASCII)
_surrogate = re.compile("[\ud800-\udfff]")
_unprintable = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")
_json_part = re.compile(r'[{}\[\]]|"(?:[^"\\]++|\\.)*+"|[^ \t\n\r,:{}\[\]"]+')
_new_yaml: Callable[[], YAML] = partial(YAML, typ="safe")
_STRING = Tag(suffix="tag:yaml.org,2002:str")
# Many readers still use YAML 1.1, where `yes` and `012` are not strings.
_old_readers = VersionedResolver(version=(1, 1))


class Defect(NamedTuple):
    """An error in a text, and its line, counted from 1."""

    line: int
    message: str


class UnreadableText(Exception):
    """The text cannot be parsed, or contains a value that cannot be stored."""

    def __init__(self, *defects: Defect) -> None:
        super().__init__(*defects)
        self.defects = defects


@dataclass(frozen=True)
class Text:
    """A parsed text. Lines are computed only when needed."""

    value: Any
    _find_lines: Callable[[], Mapping[str, int]]

    def line_of(self, path: str) -> int:
        """Return the line of a path such as `flags[3].rules[0].type`, or of its innermost existing parent."""
        while path not in self._lines:
            path = path[: max(path.rfind("."), path.rfind("["), 0)]
        return self._lines[path]

    @cached_property
    def _lines(self) -> Mapping[str, int]:
        return self._find_lines()


class _Event(NamedTuple):
    """A token of a text. `sign` is a bracket, a quotation mark for strings, or empty for other scalars."""

    line: int
    sign: str
    text: str = ""

    @property
    def is_missing(self) -> bool:
        return not self.sign and not self.text


def form_of(name: str) -> str | None:
    """Return the form that a file name implies, or None."""
    return _FORMS_BY_SUFFIX.get(PurePath(name).suffix.lower())


def parse(text: str, form: str) -> Text:
    """Parse a text in the form `yaml` or `json`. Raises UnreadableText."""
    if form == "yaml":
        return _build(_yaml_events(text))
    # The standard library is much faster, but does not report lines.
    try:
        value = json.loads(text, object_pairs_hook=_require_distinct_names)
        _require_sound(value)
    except (ValueError, RecursionError):
        return _build(_json_events(text))
    return Text(value, lambda: _Builder(_json_events(text)).lines)


def resolve(text: str) -> Any:
    """Return the value of an unquoted scalar by the rules of JSON. Anything else is a string."""
    if text in _WORDS:
        return _WORDS[text]
    if not _number.fullmatch(text):
        return text
    return int(text[:_DIGITS_READ]) if text.lstrip("-").isdigit() else float(text)


def _yaml_events(text: str) -> Iterator[_Event]:
    if match := _unprintable.search(text):
        line = text.count("\n", 0, match.start()) + 1
        message = f'YAML does not allow this character; write it in quotes as "\\u{ord(match[0]):04x}".'
        raise UnreadableText(Defect(line, message))
    has_document = False
    try:
        for event in _new_yaml().parse(text):
            if isinstance(event, DocumentStartEvent):
                if has_document:
                    raise _unreadable(event, "A second document begins here; a file can only have one.")
                has_document = True
            elif isinstance(event, NodeEvent):
                yield _node_event(event)
            elif isinstance(event, MappingEndEvent | SequenceEndEvent):
                yield _Event(event.start_mark.line + 1, "}")
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = ", ".join(filter(None, (error.context, error.problem)))
        raise UnreadableText(Defect(mark.line + 1 if mark else 1, f"This is not valid YAML: {problem}.")) from error
    except YAMLError as error:
        raise UnreadableText(Defect(1, f"This is not valid YAML: {error}.")) from error


def _node_event(event: Any) -> _Event:
    line = event.start_mark.line + 1
    if isinstance(event, AliasEvent):
        raise _unreadable(event, f"The alias *{event.anchor} is not allowed; write out the value that it stands for.")
    if event.anchor is not None:
        raise _unreadable(event, f"The anchor &{event.anchor} is not allowed; write out the value where it is used.")
    if event.tag is not None:
        raise _unreadable(event, f"The tag {event.tag} is not allowed; remove it, because values are those of JSON.")
    if isinstance(event, MappingStartEvent | SequenceStartEvent):
        return _Event(line, "{" if isinstance(event, MappingStartEvent) else "[")
    return _Event(line, '"' if event.style else "", event.value)


def _unreadable(event: Any, message: str) -> UnreadableText:
    return UnreadableText(Defect(event.start_mark.line + 1, message))


def _json_events(text: str) -> Iterator[_Event]:
    if not text.strip():
        return
    try:
        json.loads(text, parse_int=len, parse_float=len)
    except json.JSONDecodeError as error:
        problem = f"{error.msg[0].lower()}{error.msg[1:]}"
        raise UnreadableText(Defect(error.lineno, f"This is not valid JSON: {problem}.")) from error
    except RecursionError:
        pass  # the builder refuses the depth
    line, end = 1, 0
    for match in _json_part.finditer(text):
        line += text.count("\n", end, match.start())
        part, end = match[0], match.end()
        if part in ("NaN", "Infinity", "-Infinity"):
            raise UnreadableText(Defect(line, f"This is not valid JSON: {part} is not a number in JSON."))
        if part[0] == '"':
            yield _Event(line, '"', json.loads(part))
        else:
            yield _Event(line, part) if part in "{}[]" else _Event(line, "", part)


def _build(events: Iterator[_Event]) -> Text:
    builder = _Builder(events)
    if builder.defects:
        raise UnreadableText(*builder.defects)
    return Text(builder.value, lambda: builder.lines)


class _Builder:
    """Builds a JSON value from tokens, and finds the line of each path. Raises UnreadableText."""

    def __init__(self, events: Iterator[_Event]) -> None:
        self.lines: dict[str, int] = {}
        self.defects: list[Defect] = []
        self._events = events
        first = next(events, None)
        if first is None:
            raise UnreadableText(Defect(1, "The file is empty."))
        self.value = self._value(first, "", 0)
        next(events, None)  # an error may follow the value

    def _value(self, event: _Event, path: str, depth: int) -> Any:
        line = self.lines.setdefault(path, event.line)  # a member begins at its name
        if event.is_missing:
            raise UnreadableText(Defect(line, 'A value is missing; write null, "", [] or {}, or remove the name.'))
        if event.sign in ("{", "["):
            if depth == MAX_DEPTH:
                raise UnreadableText(Defect(event.line, f"Must not be nested deeper than {MAX_DEPTH} levels."))
            return self._object(path, depth + 1) if event.sign == "{" else self._list(path, depth + 1)
        value = event.text if event.sign else resolve(event.text)
        self._note(event, _fault(value))
        return value

    def _object(self, path: str, depth: int) -> dict[str, Any]:
        members: dict[str, Any] = {}
        for event in self._until_end():
            if event.sign in ("{", "[") or event.is_missing:
                raise UnreadableText(Defect(event.line, "The name of a field must be a string."))
            name = event.text
            if name in members:
                self._note(event, f'The name "{name[:50]}" appears twice in the same object; remove one of them.')
            self._note(event, _fault(name))
            inner = f"{path}.{name}" if path else name
            self.lines.setdefault(inner, event.line)
            members[name] = self._value(next(self._events), inner, depth)
        return members

    def _list(self, path: str, depth: int) -> list[Any]:
        return [self._value(event, f"{path}[{index}]", depth) for index, event in enumerate(self._until_end())]

    def _until_end(self) -> Iterator[_Event]:
        while (event := next(self._events)).sign not in ("}", "]"):
            yield event

    def _note(self, event: _Event, message: str | None) -> None:
        if message is not None:
            self.defects.append(Defect(event.line, message))


def _fault(value: Any) -> str | None:
    """Return why a scalar cannot be stored or sent as JSON, or None."""
    match value:
        case str() if "\0" in value:
            return "Must not contain the character U+0000."
        case str() if _surrogate.search(value):
            return "Must not contain half of a surrogate pair."
        case int() if not -(2**63) <= value < 2**64:
            return "Must be an integer of at most 64 bits; write a longer one as text."
        case float() if not math.isfinite(value):
            return "The number is too large."
    return None


def _require_distinct_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("a name appears twice")
    return members


def _require_sound(value: Any, depth: int = 0) -> None:
    if not isinstance(value, dict | list):
        if _fault(value) is not None:
            raise ValueError("a scalar cannot be used")
        return
    if depth == MAX_DEPTH:
        raise ValueError("too deep")
    for element in value:
        _require_sound(element, depth + 1)
        if isinstance(value, dict):
            _require_sound(value[element], depth + 1)


# --- writing ---------------------------------------------------------------------------------------------------------


def write(value: Any, form: str) -> str:
    """Write a value as text in the form `yaml` or `json`."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n" if form == "json" else _write_yaml(value)


def _write_yaml(value: Any) -> str:
    yaml = YAML(typ="safe", pure=True)
    yaml.width = sys.maxsize
    yaml.indent(mapping=2, sequence=4, offset=2)
    stream = StringIO()
    yaml.emit(_events(value), stream)
    return stream.getvalue().removesuffix("...\n")  # the end of a document that is a single scalar


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
    """Return the quotes or the block style of a string, or None for the library's choice."""
    lines = text.split("\n")
    if not all(map(str.isprintable, lines)) or not isinstance(resolve(text), str):
        return '"'
    return "|" if len(lines) > 1 else None


def _scalar(value: Any) -> str:
    """Return a number, a boolean or null as YAML 1.1 also reads it, which has 1.0e+16 but not 1e+16."""
    text = json.dumps(value)
    return text.replace("e", ".0e") if isinstance(value, float) and "." not in text else text
