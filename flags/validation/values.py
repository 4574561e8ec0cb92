"""Check the values of a flag: their type, its variants, and the JSON Schema that they must meet."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from config.errors import Detail, DetailCode
from flags.engine.compiling import with_served_variants
from flags.engine.types import ValueType
from flags.validation import json_schema
from flags.validation.shapes import (
    MAX_VARIANTS,
    Check,
    check_boolean,
    check_choice,
    check_distinct,
    check_key,
    check_list,
    check_number,
    check_object,
    echo,
)

_MAX_VALUE_BYTES = 32 * 1024


def check_values(source: Mapping[str, Any]) -> Iterator[Detail]:
    """Accept the type, variants, served variants and schema of a flag, all of which are optional."""
    if "type" in source:
        yield from check_choice(source["type"], "type", noun="type", choices=[str(kind) for kind in ValueType])
    if "variants" not in source:
        yield from _check_without_variants(source)
        return
    details = list(_check_variants(source["variants"], source.get("type")))
    if "type" not in source:
        details.append(Detail("type", DetailCode.REQUIRED, "Variants need a type; add the type of their values."))
    yield from details
    if not details:
        yield from _check_served(source)
        yield from _check_schema(source)


def _check_without_variants(source: Mapping[str, Any]) -> Iterator[Detail]:
    if source.get("type", ValueType.BOOLEAN) in [kind for kind in ValueType if kind is not ValueType.BOOLEAN]:
        message = f"A flag of type {source['type']} needs variants, which have its values."
        yield Detail("variants", DetailCode.REQUIRED, message)
    for name in ("offVariant", "defaultVariant", "schema"):
        if name in source:
            yield Detail(name, DetailCode.INVALID_VALUE, "The flag has no variants; add some, or leave this out.")


def _check_variants(value: object, value_type: object) -> Iterator[Detail]:
    check_value = _VALUE_CHECKS.get(value_type, _accept_any) if isinstance(value_type, str) else _accept_any

    def check_variant(variant: object, field: str) -> Iterator[Detail]:
        checks: Mapping[str, Check] = {"key": check_key, "value": check_value}
        return check_object(variant, field, checks=checks, required=checks, example='{"key": "blue", "value": "#00f"}')

    details = list(
        check_list(value, "variants", min_length=1, max_length=MAX_VARIANTS, noun="variants", check=check_variant)
    )
    yield from details
    if not details and isinstance(value, list):
        keys = [variant["key"] for variant in value]
        yield from check_distinct(keys, (f"variants[{index}].key" for index in range(len(keys))))


def _check_string(value: object, field: str) -> Iterator[Detail]:
    if not isinstance(value, str):
        yield Detail(field, DetailCode.INVALID_TYPE, "Must be a string, because the flag is of type string.")
    else:
        yield from _check_size(value, field)


def _check_object(value: object, field: str) -> Iterator[Detail]:
    if not isinstance(value, dict):
        yield Detail(field, DetailCode.INVALID_TYPE, "Must be an object, because the flag is of type object.")
    else:
        yield from _check_size(value, field)


def _check_size(value: object, field: str) -> Iterator[Detail]:
    if len(json.dumps(value, ensure_ascii=False).encode(errors="surrogatepass")) > _MAX_VALUE_BYTES:
        yield Detail(field, DetailCode.TOO_LONG, "Must be at most 32 KiB as JSON.")


def _accept_any(_value: object, _field: str) -> Iterator[Detail]:
    return iter(())


_VALUE_CHECKS: Mapping[str, Check] = {
    ValueType.BOOLEAN: check_boolean,
    ValueType.STRING: _check_string,
    ValueType.NUMBER: check_number,
    ValueType.OBJECT: _check_object,
}


def _check_served(source: Mapping[str, Any]) -> Iterator[Detail]:
    values = {variant["key"]: variant["value"] for variant in source["variants"]}
    served = with_served_variants(source)
    for name, wanted in (("defaultVariant", True), ("offVariant", False)):
        key = served[name]
        if not isinstance(key, str):
            yield Detail(name, DetailCode.INVALID_TYPE, "Must be a string, the key of a variant.")
        elif key not in values:
            message = f'The flag has no variant "{echo(key)}"; it has: {", ".join(values)}.'
            yield Detail(name, DetailCode.UNKNOWN_REFERENCE, message)
        elif source["type"] == ValueType.BOOLEAN and values[key] is not wanted:
            state = "on" if wanted else "off"
            message = f"Must be a variant whose value is {json.dumps(wanted)}: it is served when the flag is {state}."
            yield Detail(name, DetailCode.INVALID_VALUE, message)


def _check_schema(source: Mapping[str, Any]) -> Iterator[Detail]:
    if "schema" not in source:
        return
    schema = source["schema"]
    if not isinstance(schema, dict):
        yield Detail("schema", DetailCode.INVALID_TYPE, "Must be a JSON Schema, which is an object.")
        return
    details = [*_check_size(schema, "schema")] or [*json_schema.check_schema(schema)]
    yield from details
    if not details:
        values = {f"variants[{index}].value": variant["value"] for index, variant in enumerate(source["variants"])}
        yield from json_schema.check_values(schema, values)
