"""Files of flags and segments, read into what they are to be, and everything that is wrong with them, by its line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from config.errors import Detail, DetailCode, ValidationFailed
from config.timestamps import parse_timestamp
from flags.changes import segment_changes as segments
from flags.changes.bulk import FlagEntry, SegmentEntry, acceptable
from flags.changes.properties import PROPERTIES
from flags.engine.shapes import (
    Check,
    check_distinct,
    check_key,
    check_keys,
    check_moment,
    check_object,
    check_switch,
)
from flags.files import json_parts, yaml_parts
from flags.files.imports import Content
from flags.files.parts import Lines, UnreadableText, put_together
from flags.files.writing import VERSION

LARGEST = 20 * 1024 * 1024
MOST_DEFECTS = 100

_PARTS = {"yaml": yaml_parts.parts, "json": json_parts.parts}
_entry = re.compile(r"(flags|segments)(\[\d+\])\.?")


class FileRefused(Exception):
    """All that is wrong with a file, one line for each."""

    def __init__(self, defects: Sequence[str]) -> None:
        super().__init__("\n".join(defects))
        self.defects = defects


@dataclass(frozen=True, slots=True)
class File:
    """What a file says, and where it says it. Its name is for people to read."""

    name: str
    value: Any
    lines: Lines
    content: Content

    def refused(self, details: Sequence[Detail]) -> FileRefused:
        """What was wrong, by the lines of this file, in their order."""
        by_line = sorted(details, key=lambda detail: self.lines.of(detail.field))
        told = [_told(self.name, self.lines.of(each.field), self._message(each)) for each in by_line]
        return _refused(told)

    def _message(self, detail: Detail) -> str:
        """Such as `flags[3] (dark-mode): owner: Must be a string.`"""
        found = _entry.match(detail.field)
        if found is None:
            return f"{detail.field}: {detail.message}" if detail.field else detail.message
        rest = detail.field[found.end() :]
        entry = self.value[found[1]][int(found[2][1:-1])]
        key = entry.get("key") if isinstance(entry, dict) else None
        head = f"{found[1]}{found[2]}" + (f" ({key[:100]})" if isinstance(key, str) else "")
        return f"{head}: {rest}: {detail.message}" if rest else f"{head}: {detail.message}"


def read(raw: bytes, *, name: str, form: str, only_environment: str | None = None) -> File:
    """Read a file in the form `yaml` or `json`, of all environments that it names or of one alone.

    Raises FileRefused where its text cannot be read. What is wrong with what it says is in its content.
    """
    try:
        text = put_together(_PARTS[form](_decode(raw)))
    except UnreadableText as error:
        raise _refused([_told(name, *error.defect)]) from error
    if text.defects:
        raise _refused([_told(name, *each) for each in text.defects])
    return File(name, text.value, text.lines, _Reader(only_environment).read(text.value))


def _decode(raw: bytes) -> str:
    if len(raw) > LARGEST:
        raise UnreadableText(1, f"Must have at most {LARGEST // 1024**2} MiB.")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise UnreadableText(line, "Is not UTF-8.") from error


def _told(name: str, line: int, message: str) -> str:
    return f"{name}, line {line}: {message}".encode(errors="replace").decode()


def _refused(told: Sequence[str]) -> FileRefused:
    more = len(told) - MOST_DEFECTS
    return FileRefused([*told[:MOST_DEFECTS], f"and {more:,} more defects"] if more > 0 else told)


def _take_any(_value: object, _field: str) -> Iterator[Detail]:
    return iter(())


def _check_string(value: object, field: str) -> Iterator[Detail]:
    if not isinstance(value, str):
        yield Detail(field, DetailCode.INVALID_TYPE, "Must be a string.")


def _check_state(value: object, field: str) -> Iterator[Detail]:
    checks = {"enabled": check_switch, "rules": _take_any}
    return check_object(value, field, checks=checks, required=("enabled",), example='{"enabled": true, "rules": []}')


def _check_states(value: object, field: str) -> Iterator[Detail]:
    if not isinstance(value, dict):
        yield Detail(field, DetailCode.INVALID_TYPE, 'Must be an object, as {"production": {"enabled": true}}.')
        return
    for key, state in value.items():
        yield from _check_state(state, f"{field}.{key}")


# What is taken here as it comes is read where it comes to the domain.
_OF_SEGMENT: Mapping[str, Check] = {
    "key": check_key,
    "description": _check_string,
    "conditions": _take_any,
    "userIds": _take_any,
}
_OF_FLAG: Mapping[str, Check] = {
    "key": check_key,
    "description": _check_string,
    **dict.fromkeys((each.name for each in PROPERTIES.values()), _take_any),
    "owner": _check_string,
    "expiresAt": check_moment,
    "archived": check_switch,
    "environments": _check_states,
}
_OF_FILE: Mapping[str, Check] = {"version": _take_any, "segments": _take_any, "flags": _take_any}


@dataclass(slots=True)
class _Reader:
    """One reading of a file: what has been found so far, good and bad."""

    only_environment: str | None
    defects: list[Detail] = field(default_factory=list)
    segments: list[SegmentEntry] = field(default_factory=list)
    flags: list[FlagEntry] = field(default_factory=list)
    refused_segments: set[str] = field(default_factory=set)
    refused_flags: set[str] = field(default_factory=set)

    def read(self, value: Any) -> Content:
        if not isinstance(value, dict):
            message = f'Must be an object, as {{"version": {VERSION}, "segments": [], "flags": []}}.'
            self.defects.append(Detail("", DetailCode.INVALID_TYPE, message))
            return self._content()
        self.defects += _without_dot(check_keys(value, "", known=_OF_FILE, required=("version",)))
        if "version" in value and (value["version"] != VERSION or isinstance(value["version"], bool)):
            message = f"Must be {VERSION}, the version of files that can be read here."
            self.defects.append(Detail("version", DetailCode.INVALID_VALUE, message))
        for place, entry in self._entries(value, "segments", _OF_SEGMENT, '{"key": "beta-testers"}'):
            self._read_segment(place, entry)
        for place, entry in self._entries(value, "flags", _OF_FLAG, '{"key": "new-checkout"}'):
            self._read_flag(place, entry)
        return self._content()

    def _content(self) -> Content:
        return Content(self.segments, self.flags, self.defects, self.refused_segments, self.refused_flags)

    def _entries(
        self, file: dict[str, Any], name: str, checks: Mapping[str, Check], example: str
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """Each object of a list that has a key, with its place; what is wrong with its shape is noted."""
        entries = file.get(name, [])
        if not isinstance(entries, list):
            self.defects.append(Detail(name, DetailCode.INVALID_TYPE, f"Must be a list of {name}."))
            return
        keys = [entry.get("key") if isinstance(entry, dict) else None for entry in entries]
        self.defects += check_distinct(keys, (f"{name}[{at}].key" for at in range(len(entries))))
        seen: set[str] = set()
        for at, (key, entry) in enumerate(zip(keys, entries, strict=True)):
            place = f"{name}[{at}]"
            found = list(check_object(entry, place, checks=checks, required=("key",), example=example))
            self.defects += found
            if isinstance(key, str) and key not in seen:
                seen.add(key)
                if found:
                    self._refused(name).add(key)
                yield place, entry

    def _refused(self, name: str) -> set[str]:
        return self.refused_flags if name == "flags" else self.refused_segments

    def _read_segment(self, place: str, sent: dict[str, Any]) -> None:
        values = {
            "description": _text(sent, "description"),
            "conditions": sent.get("conditions", []),
            "user_ids": sent.get("userIds", []),
        }
        try:
            entry = SegmentEntry(place, sent["key"], segments.checked(sent["key"], values))
        except ValidationFailed as error:
            self.defects += (Detail(f"{place}.{each.field}", each.code, each.message) for each in error.details)
            self.refused_segments.add(sent["key"])
            return
        if sent["key"] not in self.refused_segments:
            self.segments.append(entry)

    def _read_flag(self, place: str, sent: dict[str, Any]) -> None:
        common = {name: sent.get(each.name, each.none) for name, each in PROPERTIES.items()}
        common |= {"description": _text(sent, "description"), "owner": _text(sent, "owner")}
        common["expires_at"] = _moment(sent)
        states = dict(self._states(sent.get("environments")))
        try:
            entry = acceptable(FlagEntry(place, sent["key"], common, states, sent.get("archived") is True))
        except ValidationFailed as error:
            self.defects += error.details
            self.refused_flags.add(sent["key"])
            return
        if sent["key"] not in self.refused_flags:
            self.flags.append(entry)

    def _states(self, sent: Any) -> Iterator[tuple[str, dict[str, Any]]]:
        for key, state in sent.items() if isinstance(sent, dict) else ():
            if isinstance(state, dict) and self.only_environment in (None, key):
                yield key, {"enabled": state.get("enabled") is True, "rules": state.get("rules", [])}


def _text(sent: Mapping[str, Any], name: str) -> str:
    """The text, or none where it is not one: that has been noted."""
    found = sent.get(name, "")
    return found if isinstance(found, str) else ""


def _moment(sent: Mapping[str, Any]) -> datetime | None:
    found = sent.get("expiresAt")
    if not isinstance(found, str) or list(check_moment(found, "")):
        return None
    return parse_timestamp(found)


def _without_dot(details: Iterator[Detail]) -> Iterator[Detail]:
    """Details of the outermost object, whose fields have nothing before them."""
    return (Detail(each.field.removeprefix("."), each.code, each.message) for each in details)
