"""Flags and segments as a file says them: what stands in the database, for `writing` to write."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from config.change_log.writing import undisturbed
from config.documents import Document
from config.errors import DomainError, ErrorCode
from config.models import Environment
from flags.changes import segment_changes
from flags.changes.documents import documents
from flags.changes.driven_rules import own_rules
from flags.changes.properties import OFF
from flags.engine.parsing import SEGMENT, references
from flags.files.writing import VERSION
from flags.models import Segment

_OF_FLAG = (
    *("key", "description", "type", "variants", "defaultVariant", "offVariant", "schema", "prerequisites"),
    *("tags", "owner", "expiresAt"),
)
_OF_SEGMENT = ("key", "description", "conditions", "userIds")
_OF_RULES = (
    *("type", "name", "enabled", "segment", "userIds", "conditions", "attribute", "operator", "value", "percentage"),
    *("at", "ramp", "bucketBy", "salt", "startAt", "endAt", "flag", "variant", "variants", "split", "weight"),
)
"""The order of names in rules, conditions and prerequisites, at any depth: PostgreSQL does not keep the one sent."""
_RANK = {name: at for at, name in enumerate(_OF_RULES)}


def content_of_file(keys: Sequence[str] = (), environments: Sequence[Environment] = ()) -> Document:
    """All flags and segments, or the flags with these keys and the segments that they name; in these environments.

    Raises DomainError `flag_not_found`.
    """
    with undisturbed():
        return _content(keys, environments)


def _content(keys: Sequence[str], environments: Sequence[Environment]) -> Document:
    found = documents(keys or None)
    if missing := [key for key in keys if key not in found]:
        raise DomainError(ErrorCode.FLAG_NOT_FOUND, f"No flag has the key {', '.join(map(repr, missing))}.")
    environment_keys = sorted(each.key for each in environments)
    flags = [_flag(document, environment_keys) for _, document in found.values()]
    rows = Segment.objects.order_by("key")
    if keys:
        rows = rows.filter(key__in=_segments_named(flags))
    return {"version": VERSION, "segments": [_segment(segment_changes.document(row)) for row in rows], "flags": flags}


def _flag(document: Document, environment_keys: Sequence[str]) -> Document:
    """A property that the flag does not have is left out."""
    states = {key: document["states"].get(key, OFF) for key in environment_keys}
    states = {key: {**state, "rules": own_rules(state["rules"])} for key, state in states.items()}
    return {
        **_there(document, _OF_FLAG),
        **({"archived": True} if "archivedAt" in document else {}),
        "environments": {key: _there(state, ("enabled", "rules")) for key, state in states.items()},
    }


def _segment(document: Document) -> Document:
    return _there(document, _OF_SEGMENT)


def _there(document: Document, names: Sequence[str]) -> Document:
    return {name: _in_order(name, document[name]) for name in names if document.get(name) not in (None, "", [])}


def _in_order(name: str, value: Any) -> Any:
    if name == "variants":
        return [{"key": each["key"], "value": each["value"]} for each in value]
    return _ranked(value) if name in ("rules", "conditions", "prerequisites") else value


def _ranked(value: Any) -> Any:
    if isinstance(value, list):
        return [_ranked(each) for each in value]
    if not isinstance(value, dict):
        return value
    names = sorted(value, key=lambda name: _RANK.get(name, len(_RANK)))
    return {name: _ranked(value[name]) for name in names}


def _segments_named(flags: Sequence[Document]) -> Collection[str]:
    """The segments that the flags name, and those that these name in their turn."""
    holders: list[Any] = [state for flag in flags for state in flag["environments"].values()]
    by_key = {segment.key: {"conditions": segment.conditions} for segment in Segment.objects.naming("inSegment")}
    found: set[str] = set()
    while holders:
        named = {each.key for holder in holders for each in references(holder) if each.kind == SEGMENT}
        holders = [by_key[key] for key in named - found if key in by_key]
        found |= named
    return found
