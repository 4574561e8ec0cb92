"""The names of the attributes that flags, segments and experiments read. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from flags.engine.conditions import USER_ID
from flags.engine.types import Flag, Segment


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
