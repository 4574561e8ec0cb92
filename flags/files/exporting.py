"""Read flags and segments from the database as the content of a file. `syntax` writes it as text."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from config.database.transactions import read_consistently
from config.documents import Document
from config.errors import DomainError, ErrorCode
from config.models import Environment
from flags.changes import segment_changes
from flags.changes.driven_rules import own_rules
from flags.changes.flag_rows import flags_as_json
from flags.changes.properties import OFF
from flags.files import VERSION
from flags.models import Segment
from flags.validation.parsing import SEGMENT, references

_OF_FLAG = (
    *("key", "description", "type", "variants", "defaultVariant", "offVariant", "schema", "prerequisites"),
    *("tags", "owner", "expiresAt", "clientVisible"),
)
_OF_SEGMENT = ("key", "description", "conditions", "userIds")
_OF_RULES = (
    *("type", "name", "comment", "enabled", "segment", "userIds", "conditions"),
    *("attribute", "operator", "value", "percentage"),
    *("at", "ramp", "bucketBy", "salt", "ranges", "from", "to", "startAt", "endAt"),
    *("flag", "serves", "variant", "variants", "split", "weight"),
)
"""The order of names in rules, conditions and prerequisites at any depth. PostgreSQL does not keep their order."""
_RANK = {name: rank for rank, name in enumerate(_OF_RULES)}


def content_of_file(keys: Sequence[str] = (), environments: Sequence[Environment] = ()) -> Document:
    """Return all flags and segments, or the flags with these keys and the segments that they use.

    States of other environments are left out. Raises DomainError `flag_not_found`.
    """
    with read_consistently():
        return _content(keys, environments)


def _content(keys: Sequence[str], environments: Sequence[Environment]) -> Document:
    flags_by_key = flags_as_json(keys or None)
    if missing := [key for key in keys if key not in flags_by_key]:
        raise DomainError(ErrorCode.FLAG_NOT_FOUND, f"No flag has the key {', '.join(map(repr, missing))}.")
    environment_keys = sorted(environment.key for environment in environments)
    flags = [_flag(as_json, environment_keys) for _, as_json in flags_by_key.values()]
    rows = Segment.objects.order_by("key")
    if keys:
        rows = rows.filter(key__in=_segments_referred_to(flags))
    return {
        "version": VERSION,
        "segments": [_segment(segment_changes.segment_as_json(row)) for row in rows],
        "flags": flags,
    }


def _flag(as_json: Document, environment_keys: Sequence[str]) -> Document:
    states = {key: as_json["states"].get(key, OFF) for key in environment_keys}
    states = {key: {**state, "rules": own_rules(state["rules"])} for key, state in states.items()}
    return {
        **_present(as_json, _OF_FLAG),
        **({"archived": True} if "archivedAt" in as_json else {}),
        "environments": {key: _present(state, ("enabled", "rules")) for key, state in states.items()},
    }


def _segment(as_json: Document) -> Document:
    return _present(as_json, _OF_SEGMENT)


def _present(as_json: Document, names: Sequence[str]) -> Document:
    """Return the properties with these names that are not empty."""
    return {name: _in_order(name, as_json[name]) for name in names if as_json.get(name) not in (None, "", [])}


def _in_order(name: str, value: Any) -> Any:
    if name == "variants":
        return [{"key": variant["key"], "value": variant["value"]} for variant in value]
    return _ranked(value) if name in ("rules", "conditions", "prerequisites") else value


def _ranked(value: Any) -> Any:
    if isinstance(value, list):
        return [_ranked(element) for element in value]
    if not isinstance(value, dict):
        return value
    names = sorted(value, key=lambda name: _RANK.get(name, len(_RANK)))
    return {name: _ranked(value[name]) for name in names}


def _segments_referred_to(flags: Sequence[Document]) -> Collection[str]:
    """Return the keys of the segments that flags use, directly or through other segments."""
    holders: list[Any] = [state for flag in flags for state in flag["environments"].values()]
    by_key = {segment.key: {"conditions": segment.conditions} for segment in Segment.objects.naming("inSegment")}
    keys: set[str] = set()
    while holders:
        new = {reference.key for holder in holders for reference in references(holder) if reference.kind == SEGMENT}
        holders = [by_key[key] for key in new - keys if key in by_key]
        keys |= new
    return keys
