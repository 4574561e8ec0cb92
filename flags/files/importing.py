"""Import a file of flags and segments: all entries are written in one transaction, or none.

`read` finds every error in the file, with its line. `import_content` writes what was read.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from config.change_log.writing import Actor, Basis, write_prepared
from config.errors import Detail, DetailCode, ValidationFailed
from config.timestamps import parse_timestamp
from flags.changes import bulk
from flags.changes import segment_changes as segments
from flags.changes.bulk import FlagEntry, SegmentEntry, Written, validate_entry
from flags.changes.properties import PROPERTIES
from flags.files import VERSION
from flags.files.syntax import Defect, Text, UnreadableText, parse
from flags.validation.shapes import (
    Check,
    check_boolean,
    check_distinct,
    check_key,
    check_keys,
    check_object,
    check_timestamp,
)

MAX_BYTES = 20 * 1024 * 1024
MAX_DEFECTS = 100

_entry = re.compile(r"(flags|segments)\[(\d+)\]\.?")


@dataclass(frozen=True, slots=True)
class Content:
    """The valid entries of a file, and the errors in the others.

    References to refused flags and segments are not reported as errors.
    """

    segments: Sequence[SegmentEntry]
    flags: Sequence[FlagEntry]
    defects: Sequence[Detail] = ()
    refused_segments: Collection[str] = ()
    refused_flags: Collection[str] = ()


class FileRefused(Exception):
    """The file cannot be imported. `defects` has one message for each error."""

    def __init__(self, defects: Sequence[str]) -> None:
        super().__init__("\n".join(defects))
        self.defects = defects


@dataclass(frozen=True, slots=True)
class File:
    """A file that was read. `name` appears in messages, and `text` knows the lines."""

    name: str
    text: Text
    content: Content

    def refused(self, details: Sequence[Detail]) -> FileRefused:
        """Return the error to raise, with its messages in the order of lines."""
        defects = [Defect(self.text.line_of(detail.field), self._message(detail)) for detail in details]
        return _refused(self.name, sorted(defects, key=lambda defect: defect.line))

    def _message(self, detail: Detail) -> str:
        """Return a message such as `flags[3] (dark-mode): owner: Must be a string.`"""
        match = _entry.match(detail.field)
        if match is None:
            return f"{detail.field}: {detail.message}" if detail.field else detail.message
        kind, index = match.groups()
        rest = detail.field[match.end() :]
        entry = self.text.value[kind][int(index)]
        key = entry.get("key") if isinstance(entry, dict) else None
        head = f"{kind}[{index}]" + (f" ({key[:100]})" if isinstance(key, str) else "")
        return f"{head}: {rest}: {detail.message}" if rest else f"{head}: {detail.message}"


def read(raw: bytes, *, name: str, form: str, only_environment: str | None = None) -> File:
    """Read a file in the form `yaml` or `json`, with the states of all environments or of one.

    Raises FileRefused if its text cannot be parsed. All other errors are in the content.
    """
    try:
        text = parse(_decode(raw), form)
    except UnreadableText as error:
        raise _refused(name, error.defects) from error
    return File(name, text, _Reader(only_environment).read(text.value))


def _decode(raw: bytes) -> str:
    if len(raw) > MAX_BYTES:
        raise UnreadableText(Defect(1, f"The file must be at most {MAX_BYTES // 1024**2} MiB."))
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise UnreadableText(Defect(line, "The file is not UTF-8.")) from error


def _refused(name: str, defects: Sequence[Defect]) -> FileRefused:
    messages = [f"{name}, line {defect.line}: {defect.message}" for defect in defects[:MAX_DEFECTS]]
    if (more := len(defects) - MAX_DEFECTS) > 0:
        messages.append(f"and {more:,} more errors")
    return FileRefused([message.encode(errors="replace").decode() for message in messages])


def _accept_any(_value: object, _field: str) -> Iterator[Detail]:
    return iter(())


def _check_string(value: object, field: str) -> Iterator[Detail]:
    if not isinstance(value, str):
        yield Detail(field, DetailCode.INVALID_TYPE, "Must be a string.")


def _check_state(value: object, field: str) -> Iterator[Detail]:
    checks = {"enabled": check_boolean, "rules": _accept_any}
    return check_object(value, field, checks=checks, required=("enabled",), example='{"enabled": true, "rules": []}')


def _check_states(value: object, field: str) -> Iterator[Detail]:
    if not isinstance(value, dict):
        yield Detail(field, DetailCode.INVALID_TYPE, 'Must be an object, such as {"production": {"enabled": true}}.')
        return
    for key, state in value.items():
        yield from _check_state(state, f"{field}.{key}")


# Values that are not checked here are checked when the entry is made.
_OF_SEGMENT: Mapping[str, Check] = {
    "key": check_key,
    "description": _check_string,
    "conditions": _accept_any,
    "userIds": _accept_any,
}
_OF_FLAG: Mapping[str, Check] = {
    "key": check_key,
    "description": _check_string,
    **dict.fromkeys((flag_property.name for flag_property in PROPERTIES.values()), _accept_any),
    "owner": _check_string,
    "expiresAt": check_timestamp,
    "clientVisible": check_boolean,
    "archived": check_boolean,
    "environments": _check_states,
}
_OF_FILE: Mapping[str, Check] = {"version": _accept_any, "segments": _accept_any, "flags": _accept_any}


@dataclass(slots=True)
class _Reader:
    """Collects the entries of one file, and its errors."""

    only_environment: str | None
    defects: list[Detail] = field(default_factory=list)
    segments: list[SegmentEntry] = field(default_factory=list)
    flags: list[FlagEntry] = field(default_factory=list)
    refused_segments: set[str] = field(default_factory=set)
    refused_flags: set[str] = field(default_factory=set)

    def read(self, value: Any) -> Content:
        if not isinstance(value, dict):
            message = f'Must be an object, such as {{"version": {VERSION}, "segments": [], "flags": []}}.'
            self.defects.append(Detail("", DetailCode.INVALID_TYPE, message))
            return self._content()
        self.defects += _without_dot(check_keys(value, "", known=_OF_FILE, required=("version",)))
        if "version" in value and (value["version"] != VERSION or isinstance(value["version"], bool)):
            message = f"Must be {VERSION}, the only version of files that can be imported."
            self.defects.append(Detail("version", DetailCode.INVALID_VALUE, message))
        for path, entry in self._entries(value, "segments", _OF_SEGMENT, '{"key": "beta-testers"}'):
            self._read_segment(path, entry)
        for path, entry in self._entries(value, "flags", _OF_FLAG, '{"key": "new-checkout"}'):
            self._read_flag(path, entry)
        return self._content()

    def _content(self) -> Content:
        return Content(self.segments, self.flags, self.defects, self.refused_segments, self.refused_flags)

    def _entries(
        self, file: dict[str, Any], name: str, checks: Mapping[str, Check], example: str
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield each object of a list that has a key, with its path. Other shapes are errors."""
        entries = file.get(name, [])
        if not isinstance(entries, list):
            self.defects.append(Detail(name, DetailCode.INVALID_TYPE, f"Must be a list of {name}."))
            return
        keys = [entry.get("key") if isinstance(entry, dict) else None for entry in entries]
        self.defects += check_distinct(keys, (f"{name}[{index}].key" for index in range(len(entries))))
        seen: set[str] = set()
        for index, (key, entry) in enumerate(zip(keys, entries, strict=True)):
            path = f"{name}[{index}]"
            details = list(check_object(entry, path, checks=checks, required=("key",), example=example))
            self.defects += details
            if isinstance(key, str) and key not in seen:
                seen.add(key)
                if details:
                    self._refused(name).add(key)
                yield path, entry

    def _refused(self, name: str) -> set[str]:
        return self.refused_flags if name == "flags" else self.refused_segments

    def _read_segment(self, path: str, sent: dict[str, Any]) -> None:
        values = {
            "description": _string(sent, "description"),
            "conditions": sent.get("conditions", []),
            "user_ids": sent.get("userIds", []),
        }
        try:
            entry = SegmentEntry(path, sent["key"], segments.validate(sent["key"], values))
        except ValidationFailed as error:
            self.defects += (replace(detail, field=f"{path}.{detail.field}") for detail in error.details)
            self.refused_segments.add(sent["key"])
            return
        if sent["key"] not in self.refused_segments:
            self.segments.append(entry)

    def _read_flag(self, path: str, sent: dict[str, Any]) -> None:
        common = {
            **{name: sent.get(flag_property.name, flag_property.none) for name, flag_property in PROPERTIES.items()},
            "description": _string(sent, "description"),
            "owner": _string(sent, "owner"),
            "expires_at": _moment(sent),
            "client_visible": sent.get("clientVisible") is not False,
        }
        states = dict(self._states(sent.get("environments")))
        try:
            entry = validate_entry(FlagEntry(path, sent["key"], common, states, sent.get("archived") is True))
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


def _string(sent: Mapping[str, Any], name: str) -> str:
    """Return the string, or "" for another value, which was reported already."""
    value = sent.get(name, "")
    return value if isinstance(value, str) else ""


def _moment(sent: Mapping[str, Any]) -> datetime | None:
    value = sent.get("expiresAt")
    if not isinstance(value, str) or list(check_timestamp(value, "")):
        return None
    return parse_timestamp(value)


def _without_dot(details: Iterator[Detail]) -> Iterator[Detail]:
    """Yield details of the outermost object without the dot before the field."""
    return (replace(detail, field=detail.field.removeprefix(".")) for detail in details)


# --- writing ---------------------------------------------------------------------------------------------------------


def import_content(
    content: Content, *, actor: Actor, now: datetime, reason: str = "", is_dry_run: bool = False
) -> Sequence[Written]:
    """Write the entries that differ from the database and return them, segments first.

    A dry run writes them and rolls back. Raises ValidationFailed with all errors of the file.
    """

    def prepare(basis: Basis) -> bulk.PreparedWrite:
        return _prepare(basis, content)

    return write_prepared(prepare, actor=actor, now=now, reason=reason, is_dry_run=is_dry_run).written


def _prepare(basis: Basis, content: Content) -> bulk.PreparedWrite:
    details = list(content.defects)
    try:
        write = bulk.prepare(
            basis,
            segments=content.segments,
            flags=content.flags,
            granted_segments=content.refused_segments,
            granted_flags=content.refused_flags,
        )
    except ValidationFailed as error:
        details += error.details
    if details:
        raise ValidationFailed(details)
    return write
