"""The base of structs for answers of the API, and annotations of their fields. This module is pure.

`config.api.structs` makes OpenAPI components of them, and has an example.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from functools import cache
from typing import Annotated, Any, Self, get_args, get_type_hints

import msgspec
import msgspec.structs
from msgspec import UNSET, Meta

from config.documents import Document
from config.slugs import KEY_LENGTH, NAME_LENGTH
from config.timestamps import format_timestamp

KEY: dict[str, Any] = {
    "type": "string",
    "minLength": 1,
    "maxLength": KEY_LENGTH,
    "pattern": rf"^[A-Za-z0-9][A-Za-z0-9._-]{{0,{KEY_LENGTH - 1}}}$",
}
NAME: dict[str, Any] = {"type": "string", "minLength": 1, "maxLength": NAME_LENGTH, "pattern": r"^[^\u0000]*$"}
MOMENT: dict[str, Any] = {"anyOf": [{"type": "string", "format": "date-time"}, {"type": "string", "format": "date"}]}
"""A point in time as callers send it."""

Key = Annotated[str, Meta(extra_json_schema=KEY)]
Name = Annotated[str, Meta(extra_json_schema=NAME)]
Moment = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
"""A point in time as `config.timestamps.format_timestamp` writes it."""

Count = Annotated[int, Meta(ge=0)]
Share = Annotated[float, Meta(ge=0, le=1)]


class Answer(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """An object of an answer: closed, with properties in camel case."""

    @classmethod
    def of(cls, source: Any, **others: Any) -> Self:
        """Return an answer with these properties, and with attributes of the source that have the names of fields.

        Objects become answers of the types of the fields, and datetimes become strings. An optional property is left
        out if its value is None or an empty sequence.
        """
        names = [name for name in cls.__struct_fields__ if name not in others and hasattr(source, name)]
        values = {name: getattr(source, name) for name in names} | others
        kinds, optional = _kinds(cls), _optional(cls)
        return cls(
            **{
                name: _filled(value, kinds.get(name))
                for name, value in values.items()
                if name not in optional or not (value is None or value == () or value == [])
            }
        )

    def as_json(self) -> Document:
        """Return the answer as JSON."""
        as_json: Document = msgspec.to_builtins(self)
        return as_json


def _filled(value: Any, kind: type[Answer] | None) -> Any:
    if isinstance(value, datetime):
        return format_timestamp(value)
    if kind is None or value is None or isinstance(value, Answer):
        return value
    return [_filled(part, kind) for part in value] if isinstance(value, (list, tuple)) else kind.of(value)


@cache
def _kinds(struct: type[Answer]) -> dict[str, type[Answer]]:
    kinds = ((name, next(_answers_in(hint), None)) for name, hint in get_type_hints(struct).items())
    return {name: kind for name, kind in kinds if kind is not None}


def _answers_in(hint: Any) -> Iterator[type[Answer]]:
    if isinstance(hint, type) and issubclass(hint, Answer):
        yield hint
    for part in get_args(hint):
        yield from _answers_in(part)


@cache
def _optional(struct: type[Answer]) -> frozenset[str]:
    return frozenset(field.name for field in msgspec.structs.fields(struct) if field.default is UNSET)


def reference(name: str) -> dict[str, Any]:
    """Return the reference to a component of the OpenAPI document."""
    return {"$ref": f"#/components/schemas/{name}"}


def described(description: str) -> Meta:
    return Meta(description=description)


def one_of(values: Iterable[str]) -> Meta:
    """Return the annotation of a string that is one of these."""
    return Meta(extra_json_schema={"enum": [str(value) for value in values]})


def shaped(schema: dict[str, Any]) -> Meta:
    """Return the annotation of a value with this schema. Use it with types such as `Any` and `list[Any]`."""
    return Meta(extra_json_schema=schema)
