"""The attributes of users: their names in rules and segments, and the values that the sample keeps. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import orjson

from flags.engine.conditions import USER_ID, compile_reader
from flags.engine.types import Attributes, Context, Flag, Segment

MAX_VALUE_BYTES = 1_000
"""The sample leaves out values that are longer, as JSON."""
MAX_BYTES = 8_000
"""The sample keeps at most this many bytes of JSON for a user."""


def names_of_document(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names that a rule, a segment or an experiment reads."""
    for condition in document.get("conditions", ()):
        if "attribute" in condition:
            yield condition["attribute"]
    if "bucketBy" in document:
        yield document["bucketBy"]


def names_read(flags: Iterable[Flag], segments: Mapping[str, Segment]) -> set[str]:
    """Return the names that these flags read, also by the segments that they use."""
    documents = [rule.source for flag in flags for rule in flag.rules]
    names, used = set[str](), set[str]()
    while documents:
        document = documents.pop()
        names.update(names_of_document(document))
        for key in set(_segments_of(document)) - used:
            used.add(key)
            if key in segments:
                documents.append(segments[key].source)
    return names - {USER_ID}


def _segments_of(document: Mapping[str, Any]) -> Iterator[str]:
    if "segment" in document:
        yield document["segment"]
    for condition in document.get("conditions", ()):
        if condition["operator"] == "inSegment":
            yield condition["value"]


class Reader(NamedTuple):
    """Reads the attributes with certain names."""

    names: frozenset[str]
    read: Mapping[str, Callable[[Context], object]]

    @classmethod
    def of(cls, names: frozenset[str]) -> Reader:
        return cls(names, {name: compile_reader(name) for name in sorted(names)})

    def values(self, context: Context) -> dict[str, Any]:
        """Return the values that the user has, within the limits, by the names that conditions use."""
        values = ((name, read(context)) for name, read in self.read.items())
        return within_limits({name: value for name, value in values if value is not None})


def within_limits(attributes: Attributes) -> dict[str, Any]:
    """Return the attributes without values that are too long, and without those that make too much together."""
    kept: dict[str, Any] = {}
    size = 0
    for name, value in attributes.items():
        length = len(orjson.dumps(value))
        if length <= MAX_VALUE_BYTES and size + length <= MAX_BYTES:
            kept[name] = value
            size += length
    return kept
