"""The supported part of JSON Schema for values of flags, and the check of values against a schema.

Source: JSON Schema 2020-12. A check must end soon and read nothing else. So `$id`, anchors, dynamic and remote
references, `unevaluated...` and `patternProperties` are not supported. Patterns are those of RE2.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from jsonschema.validators import extend
from referencing import Registry

from config.errors import Detail, DetailCode
from flags.engine.operands import compile_pattern
from flags.validation.conditions import check_pattern
from flags.validation.shapes import echo

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_MAX_SUBSCHEMAS = 200
_MAX_DEPTH = 30
_MAX_STEPS = 100_000
_MAX_MESSAGES = 5

_HOLD_ONE = ("additionalProperties", "propertyNames", "items", "contains", "not", "if", "then", "else")
_HOLD_LIST = ("allOf", "anyOf", "oneOf", "prefixItems")
_HOLD_NAMED = ("properties", "$defs", "dependentSchemas")
_HOLD_NONE = (
    *("type", "enum", "const", "multipleOf", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum"),
    *("maxLength", "minLength", "pattern", "maxItems", "minItems", "uniqueItems", "maxContains", "minContains"),
    *("maxProperties", "minProperties", "required", "dependentRequired", "$ref"),
    *("title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "format", "$comment"),
)
_KEYWORDS = frozenset([*_HOLD_ONE, *_HOLD_LIST, *_HOLD_NAMED, *_HOLD_NONE])
_definition = re.compile(r"#/\$defs/([A-Za-z0-9._-]+)", re.ASCII)


def check_schema(schema: dict[str, Any]) -> Iterator[Detail]:
    """Accept a schema of the keywords above whose references lead to its own `$defs`."""
    subschemas = list(islice(_walk(schema, "schema"), _MAX_SUBSCHEMAS + 1))
    if len(subschemas) > _MAX_SUBSCHEMAS or max(depth for _, _, depth in subschemas) > _MAX_DEPTH:
        message = f"Must have at most {_MAX_SUBSCHEMAS} schemas, nested at most {_MAX_DEPTH} deep."
        yield Detail("schema", DetailCode.OUT_OF_RANGE, message)
        return
    details = [detail for subschema, field, _ in subschemas for detail in _check_keywords(subschema, field, schema)]
    yield from details
    if details:
        return
    for error in islice(_metaschema.iter_errors(schema), _MAX_MESSAGES):
        yield Detail(_path("schema", error.absolute_path), DetailCode.INVALID_VALUE, f"{error.message[:200]}.")


def check_values(schema: dict[str, Any], values: Mapping[str, object]) -> Iterator[Detail]:
    """Accept values, by field, that meet a schema that has passed its check.

    Refuse a schema that refers to itself, or that takes too many steps to check.
    """
    try:
        steps = _Sizes(schema).of(schema, ()) * sum(map(_nodes, values.values()))
    except RecursionError:
        yield Detail("schema", DetailCode.INVALID_VALUE, "Must not refer to itself.")
        return
    if steps > _MAX_STEPS:
        yield Detail(
            "schema", DetailCode.OUT_OF_RANGE, "Must be simpler: checking these values would take too many steps."
        )
        return
    validator = _Validator(schema, registry=Registry())
    for field, value in values.items():
        for error in islice(validator.iter_errors(value), _MAX_MESSAGES):
            message = f"Does not meet the schema: {error.message[:200]}."
            yield Detail(_path(field, error.absolute_path), DetailCode.INVALID_VALUE, message)


def _walk(schema: object, field: str, depth: int = 1) -> Iterator[tuple[dict[str, Any], str, int]]:
    """Yield a schema and every schema inside it, with field and depth. The metaschema finds misplaced schemas."""
    if isinstance(schema, dict):
        yield schema, field, depth
        for inner, step in _inner(schema):
            yield from _walk(inner, f"{field}.{step}", depth + 1)


def _inner(schema: dict[str, Any]) -> Iterator[tuple[object, str]]:
    for name in schema.keys() & {*_HOLD_ONE}:
        yield schema[name], name
    for name in schema.keys() & {*_HOLD_LIST}:
        for index, inner in enumerate(schema[name] if isinstance(schema[name], list) else ()):
            yield inner, f"{name}[{index}]"
    for name in schema.keys() & {*_HOLD_NAMED}:
        for key, inner in (schema[name] if isinstance(schema[name], dict) else {}).items():
            yield inner, f"{name}.{echo(key)}"


def _check_keywords(schema: dict[str, Any], field: str, root: dict[str, Any]) -> Iterator[Detail]:
    for name in schema:
        if name == "$schema" and schema is root:
            if schema[name] != DIALECT:
                yield Detail(f"{field}.$schema", DetailCode.INVALID_VALUE, f'Must be "{DIALECT}", or left out.')
        elif name not in _KEYWORDS:
            message = "This keyword is not supported; leave it out."
            yield Detail(f"{field}.{echo(name)}", DetailCode.UNKNOWN_FIELD, message)
    if isinstance(schema.get("pattern"), str) and schema["pattern"]:
        yield from check_pattern(schema["pattern"], f"{field}.pattern")
    if "$ref" in schema and _target(schema["$ref"], root) is None:
        message = 'Must be "#/$defs/name", with a name in $defs of letters, digits, dots, underscores and hyphens.'
        yield Detail(f"{field}.$ref", DetailCode.UNKNOWN_REFERENCE, message)


def _target(reference: object, root: dict[str, Any]) -> object:
    name = _definition.fullmatch(reference) if isinstance(reference, str) else None
    definitions = root.get("$defs")
    return definitions.get(name[1]) if name and isinstance(definitions, dict) else None


class _Sizes:
    """The sizes of schemas. A definition counts once for each reference to it."""

    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._by_reference: dict[str, int] = {}

    def of(self, schema: object, through: tuple[str, ...]) -> int:
        """Return the size of a schema reached through these references. Raises RecursionError on a circle."""
        if not isinstance(schema, dict):
            return 1
        inner = sum(self.of(subschema, through) for subschema, step in _inner(schema) if not step.startswith("$defs."))
        own = sum(_nodes(schema[name]) for name in schema if name in _HOLD_NONE)
        return 1 + own + inner + (self._of_definition(schema["$ref"], through) if "$ref" in schema else 0)

    def _of_definition(self, reference: str, through: tuple[str, ...]) -> int:
        if reference in through:
            raise RecursionError(reference)
        if reference not in self._by_reference:
            self._by_reference[reference] = self.of(_target(reference, self._root), (*through, reference))
        return self._by_reference[reference]


def _nodes(value: object) -> int:
    """Return the number of JSON values in a value, including itself."""
    if isinstance(value, dict):
        return 1 + sum(map(_nodes, value.values()))
    return 1 + sum(map(_nodes, value)) if isinstance(value, list) else 1


def _pattern(_validator: Any, pattern: str, instance: object, _schema: Any) -> Iterator[ValidationError]:
    if isinstance(instance, str) and not compile_pattern(pattern).search(instance):
        yield ValidationError(f"does not match {pattern!r}")


def _unique_items(_validator: Any, is_wanted: bool, instance: object, _schema: Any) -> Iterator[ValidationError]:
    if is_wanted and isinstance(instance, list) and len(set(map(_canonical, instance))) < len(instance):
        yield ValidationError("has the same element twice")


def _canonical(value: object) -> str:
    """Return a string that is equal for equal JSON: 1 equals 1.0, and the order of names does not matter."""
    if isinstance(value, dict):
        inner = ",".join(f"{json.dumps(name)}:{_canonical(value[name])}" for name in sorted(value))
        return f"{{{inner}}}"
    if isinstance(value, list):
        return f"[{','.join(map(_canonical, value))}]"
    return json.dumps(int(value) if isinstance(value, float) and value.is_integer() else value)


# Python's own patterns, and the library's search for equal elements, can take forever on a hostile value.
_Validator: Any = extend(Draft202012Validator, {"pattern": _pattern, "uniqueItems": _unique_items})  # type: ignore[no-untyped-call]
_metaschema = Draft202012Validator(Draft202012Validator.META_SCHEMA)


def _path(start: str, path: Any) -> str:
    return start + "".join(f"[{step}]" if isinstance(step, int) else f".{echo(str(step))}" for step in path)
