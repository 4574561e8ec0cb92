"""Answers as structs, which define both their JSON and their component of the OpenAPI document.

An answer is a subclass of `Answer` with the name of its component. Its docstring describes the component, and each
property is an annotated field, in the order of the JSON:

    class VariantUsers(Answer):
        \"\"\"A variant and the users who were exposed to it.\"\"\"

        key: Key
        users: Annotated[Count, described("Distinct users exposed.")]
        winner: Annotated[Key | None, described("The variant to ship.")]
        status: Annotated[str, one_of(Status.values)]
        series: Annotated[list[Day] | UnsetType, described("With `series=daily`.")] = UNSET  # left out unless it is set

A view declares it with `answer(schema_of(VariantUsers), ...)`, or `schema_of(list[VariantUsers])`, and answers
`Response(VariantUsers.of(source).as_json())`, where the source is an object with attributes of the same names (in
snake case). `of` and the constructor do not check values or convert numbers. A property that may be left out
comes last, or the class says `kw_only=True`.
"""

from __future__ import annotations

from inspect import cleandoc
from typing import Any

import msgspec

from config.answers import Answer, Count, Key, Moment, Name, Share, described, one_of, shaped
from config.api.schema import Schema, component

__all__ = ["Answer", "Count", "Key", "Moment", "Name", "Share", "described", "one_of", "schema_of", "shaped"]

_REFERENCE = "#/components/schemas/{name}"


def schema_of(kind: Any) -> Schema:
    """Return the schema of a struct or a list of structs, and add the components that it needs to the document."""
    [schema], components = msgspec.json.schema_components([kind], ref_template=_REFERENCE)
    for name, described_by_msgspec in components.items():
        component(name, _as_openapi(described_by_msgspec))
    converted: Schema = _as_openapi(schema)
    return converted


def _as_openapi(schema: Any) -> Any:
    """Return a schema in the style of the document: without titles, and with null as another type."""
    if isinstance(schema, list):
        return [_as_openapi(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    converted = {name: _as_openapi(part) for name, part in schema.items() if name not in ("title", "properties")}
    if "properties" in schema:  # names of properties are not keywords
        converted["properties"] = {name: _as_openapi(part) for name, part in schema["properties"].items()}
    if all(isinstance(value, str) for value in converted.get("enum", [None])):  # the tag of a struct has no type
        converted["type"] = "string"
    if "description" in converted:
        converted["description"] = cleandoc(converted["description"])
    return _join(converted) if "anyOf" in converted else converted


def _join(schema: Schema) -> Schema:
    """Write alternatives of types as one list of types, and the null of a reference as `oneOf`."""
    *others, last = alternatives = schema["anyOf"]
    rest = {name: part for name, part in schema.items() if name != "anyOf"}
    if all(alternative.keys() == {"type"} for alternative in alternatives):
        return {"type": [alternative["type"] for alternative in alternatives], **rest}
    if last != {"type": "null"} or len(others) != 1:
        return schema
    [value] = others
    if not isinstance(value.get("type"), str):
        return {"oneOf": alternatives, **rest}
    nullable = {**value, "type": [value["type"], "null"], **rest}
    return {**nullable, "enum": [*value["enum"], None]} if "enum" in value else nullable
