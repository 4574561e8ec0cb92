"""What an answer is made of: structs whose fields are annotated with their descriptions and limits. Pure.

`config.api.structs` makes the JSON and the OpenAPI components of them, and shows how an answer is written.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from config.documents import Document
from config.slugs import KEY_LENGTH, NAME_LENGTH

KEY: dict[str, Any] = {
    "type": "string",
    "minLength": 1,
    "maxLength": KEY_LENGTH,
    "pattern": rf"^[A-Za-z0-9][A-Za-z0-9._-]{{0,{KEY_LENGTH - 1}}}$",
}
NAME: dict[str, Any] = {"type": "string", "minLength": 1, "maxLength": NAME_LENGTH, "pattern": r"^[^\u0000]*$"}

Key = Annotated[str, Meta(extra_json_schema=KEY)]
Name = Annotated[str, Meta(extra_json_schema=NAME)]
Moment = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
"""A point in time as `config.timestamps.format_timestamp` writes it."""

Count = Annotated[int, Meta(ge=0)]
Share = Annotated[float, Meta(ge=0, le=1)]


class Answer(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """An object of an answer: closed, with properties in camel case."""

    def document(self) -> Document:
        """Return the answer as JSON."""
        document: Document = msgspec.to_builtins(self)
        return document


def described(description: str) -> Meta:
    """Return the annotation that describes a property."""
    return Meta(description=description)


def one_of(values: Iterable[str]) -> Meta:
    """Return the annotation of a text that is one of these."""
    return Meta(extra_json_schema={"enum": [str(value) for value in values]})


def shaped(schema: dict[str, Any]) -> Meta:
    """Return the annotation of a value whose schema is known already; use it with `Any`, `list[Any]` and the like."""
    return Meta(extra_json_schema=schema)
