"""Attributes of users: the names that rules and segments read, and the values that the sample keeps. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import orjson

from flags.engine.conditions import USER_ID, compile_reader
from flags.engine.types import Attributes, Context, Flag, Segment

MAX_VALUE_BYTES = 1_000
"""The sample leaves out longer values, as JSON."""
MAX_BYTES = 8_000
"""The limit of all values of a user, as JSON."""


def attributes_in(source: Mapping[str, Any]) -> Iterator[str]:
    """Yield the attribute names that a rule, a segment or an experiment reads."""
    for condition in source.get("conditions", ()):
        if "attribute" in condition:
            yield condition["attribute"]
    if "bucketBy" in source:
        yield source["bucketBy"]


def attributes_read(flags: Iterable[Flag], segments: Mapping[str, Segment]) -> set[str]:
    """Return the attribute names that these flags read, directly or through segments."""
    sources = [rule.source for flag in flags for rule in flag.rules]
    names, used = set[str](), set[str]()
    while sources:
        source = sources.pop()
        names.update(attributes_in(source))
        for key in set(_segments_of(source)) - used:
            used.add(key)
            if key in segments:
                sources.append(segments[key].source)
    return names - {USER_ID}


def _segments_of(source: Mapping[str, Any]) -> Iterator[str]:
    if "segment" in source:
        yield source["segment"]
    for condition in source.get("conditions", ()):
        if condition["operator"] == "inSegment":
            yield condition["value"]


class Reader(NamedTuple):
    names: frozenset[str]
    read: Mapping[str, Callable[[Context], object]]

    @classmethod
    def of(cls, names: frozenset[str]) -> Reader:
        return cls(names, {name: compile_reader(name) for name in sorted(names)})

    def values(self, context: Context) -> dict[str, Any]:
        """Return the user's values within the limits, by the names that conditions use."""
        values = ((name, read(context)) for name, read in self.read.items())
        return within_limits({name: value for name, value in values if value is not None})


def within_limits(attributes: Attributes) -> dict[str, Any]:
    """Return the attributes without values that exceed a limit."""
    kept: dict[str, Any] = {}
    size = 0
    for name, value in attributes.items():
        length = len(orjson.dumps(value))
        if length <= MAX_VALUE_BYTES and size + length <= MAX_BYTES:
            kept[name] = value
            size += length
    return kept
