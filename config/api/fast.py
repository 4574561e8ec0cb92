"""Bodies of the hot paths: msgspec takes a good one in a microsecond, and the serializer explains a bad one.

A test holds each struct to its serializer: they accept the same bodies.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

import msgspec

from config.keys import NAME_LENGTH

Struct = TypeVar("Struct", bound=msgspec.Struct)

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=NAME_LENGTH)]


def convert(data: Any, to: type[Struct]) -> Struct | None:
    """The body as a struct, or None where the serializer has to say what is wrong with it."""
    try:
        return msgspec.convert(data, to)
    except msgspec.ValidationError:
        return None
