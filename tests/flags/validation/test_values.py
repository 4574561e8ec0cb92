"""Values of flags: variants and their types, default and off variants, and the schema."""

from __future__ import annotations

import json
import math
from typing import Any

from flags.engine.compiling import with_served_variants
from flags.validation.json_schema import DIALECT
from flags.validation.parsing import parse_flag
from tests.flags.validation.refusals import blamed_in

ALL = {"type": "percentage", "percentage": 100}
PRO = {"type": "attribute", "conditions": [{"attribute": "plan", "operator": "equals", "value": "pro"}]}
RED, BLUE = {"key": "red", "value": "#f00"}, {"key": "blue", "value": "#00f"}
COLOURS = {"type": "string", "variants": [RED, BLUE]}
YES, NO = {"key": "yes", "value": True}, {"key": "no", "value": False}


def test_parse_flag__wrong_values__are_blamed() -> None:
    for document, expected in [
        ({"type": "integer"}, [("type", "invalid_value")]),
        ({"type": 7}, [("type", "invalid_type")]),
        *[({"type": name}, [("variants", "required")]) for name in ("string", "number", "object")],
        ({"variants": [RED]}, [("type", "required")]),
        ({"type": "string", "variants": {}}, [("variants", "invalid_type")]),
        ({"type": "string", "variants": []}, [("variants", "out_of_range")]),
        (
            {"type": "string", "variants": [{"key": f"v{n}", "value": ""} for n in range(51)]},
            [("variants", "out_of_range")],
        ),
        ({"type": "string", "variants": ["red"]}, [("variants[0]", "invalid_type")]),
        ({"type": "string", "variants": [{"key": "red"}]}, [("variants[0].value", "required")]),
        ({"type": "string", "variants": [RED, RED]}, [("variants[1].key", "duplicate")]),
        ({"type": "string", "variants": [{"key": "no key", "value": "x"}]}, [("variants[0].key", "invalid_value")]),
        *[
            ({"type": "string", "variants": [{"key": "a", "value": value}]}, [("variants[0].value", "invalid_type")])
            for value in (None, 1, True, [], {})
        ],
        *[
            ({"type": "number", "variants": [{"key": "a", "value": value}]}, [("variants[0].value", "invalid_type")])
            for value in (None, "1", True, [], {})
        ],
        ({"type": "number", "variants": [{"key": "a", "value": math.inf}]}, [("variants[0].value", "invalid_value")]),
        *[
            ({"type": "object", "variants": [{"key": "a", "value": value}]}, [("variants[0].value", "invalid_type")])
            for value in (None, "{}", 1, True, [])
        ],
        *[
            ({"type": "boolean", "variants": [{"key": "a", "value": value}]}, [("variants[0].value", "invalid_type")])
            for value in (None, "true", 1, [], {})
        ],
        ({"type": "string", "variants": [{"key": "a", "value": "x" * 32_767}]}, [("variants[0].value", "too_long")]),
        (COLOURS | {"offVariant": "green"}, [("offVariant", "unknown_reference")]),
        (COLOURS | {"defaultVariant": 7}, [("defaultVariant", "invalid_type")]),
        ({"offVariant": "red"}, [("offVariant", "invalid_value")]),
        ({"schema": {}}, [("schema", "invalid_value")]),
        ({"type": "boolean", "variants": [YES, NO], "offVariant": "yes"}, [("offVariant", "invalid_value")]),
        ({"type": "boolean", "variants": [YES]}, [("offVariant", "invalid_value")]),
        ({"type": "boolean", "variants": [NO]}, [("defaultVariant", "invalid_value")]),
        (
            COLOURS | {"rules": [ALL | {"variant": "red", "split": [{"variant": "blue", "weight": 1}]}]},
            [("rules[0].split", "invalid_value")],
        ),
        (COLOURS | {"rules": [ALL | {"variant": "green"}]}, [("rules[0].variant", "unknown_reference")]),
        (
            COLOURS | {"rules": [ALL | {"split": [{"variant": "red", "weight": 0}]}]},
            [("rules[0].split", "out_of_range")],
        ),
        (
            COLOURS | {"rules": [ALL | {"split": [{"variant": "red", "weight": 1}] * 2}]},
            [("rules[0].split[1].variant", "duplicate")],
        ),
        (
            COLOURS | {"rules": [ALL | {"split": [{"variant": "red", "weight": -1}]}]},
            [("rules[0].split[0].weight", "out_of_range")],
        ),
        (
            COLOURS | {"rules": [ALL | {"split": [{"variant": "red", "weight": "1"}]}]},
            [("rules[0].split[0].weight", "invalid_type")],
        ),
    ]:
        assert blamed_in(document) == expected, document


def test_with_served_variants__left_out__are_filled_in() -> None:
    for document, default, off in [
        (COLOURS, "red", "blue"),
        (COLOURS | {"offVariant": "red"}, "red", "red"),
        (COLOURS | {"defaultVariant": "blue"}, "blue", "blue"),
        ({"type": "boolean", "variants": [NO, YES]}, "yes", "no"),
        ({"type": "number", "variants": [{"key": "one", "value": 1}]}, "one", "one"),
        ({"type": "object", "variants": [{"key": "one", "value": {"a": [1]}}]}, "one", "one"),
    ]:
        full = with_served_variants(document)
        assert full == {**document, "defaultVariant": default, "offVariant": off}, (document, default)
        assert parse_flag({"key": "f", "enabled": True, **full}) == parse_flag(
            {"key": "f", "enabled": True, **document}
        ), (document, default)
        assert with_served_variants({"type": "boolean"}) == {"type": "boolean"}, (document, default)


def doubling(levels: int) -> dict[str, Any]:
    """A schema in which each definition refers twice to the next."""
    twice = {f"a{at}": {"allOf": [{"$ref": f"#/$defs/a{at + 1}"}] * 2} for at in range(levels)}
    return {"$defs": {**twice, f"a{levels}": {}}, "$ref": "#/$defs/a0"}


def nested(levels: int) -> dict[str, Any]:
    return {"items": nested(levels - 1)} if levels > 1 else {}


LIMITS = {
    "type": "object",
    "variants": [{"key": "few", "value": {"limit": 3}}, {"key": "many", "value": {"limit": 300}}],
}


def test_parse_flag__schema__must_be_one_that_every_value_meets() -> None:
    for schema, expected in [
        ([], [("schema", "invalid_type")]),
        ({"type": "objekt"}, [("schema.type", "invalid_value")]),
        ({"properties": {"limit": {"maximum": 100}}}, [("variants[1].value.limit", "invalid_value")]),
        ({"required": ["name"]}, [("variants[0].value", "invalid_value"), ("variants[1].value", "invalid_value")]),
        ({"description": "x" * 33_000}, [("schema", "too_long")]),
        ({"$schema": "http://json-schema.org/draft-07/schema#"}, [("schema.$schema", "invalid_value")]),
        ({"propertis": {}}, [("schema.propertis", "unknown_field")]),
        *(
            ({name: "http://example.com/"}, [(f"schema.{name}", "unknown_field")])
            for name in (
                "$id",
                "$anchor",
                "$dynamicRef",
                "$dynamicAnchor",
                "$recursiveRef",
                "$vocabulary",
                "definitions",
            )
        ),
        ({"items": {"$schema": DIALECT}}, [("schema.items.$schema", "unknown_field")]),
        *(
            ({"$ref": reference}, [("schema.$ref", "unknown_reference")])
            for reference in ("https://example.com/a.json", "file:///etc/passwd", "#", "#/$defs/gone", "#/items", 7)
        ),
        ({"$defs": {"a": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}, [("schema", "invalid_value")]),
        (doubling(30), [("schema", "out_of_range")]),
        (nested(31), [("schema", "out_of_range")]),
        ({"allOf": [{}] * 200}, [("schema", "out_of_range")]),
        ({"$defs": {"a": {"multipleOf": 0}}, "$ref": "#/$defs/a"}, [("schema.$defs.a.multipleOf", "invalid_value")]),
        ({"$defs": {"a": {"properties": 3}}, "$ref": "#/$defs/a"}, [("schema.$defs.a.properties", "invalid_value")]),
        ({"patternProperties": {"^(a+)+$": {}}}, [("schema.patternProperties", "unknown_field")]),
        ({"propertyNames": {"pattern": "(?=x)"}}, [("schema.propertyNames.pattern", "invalid_value")]),
        ({"properties": {"unused": {"pattern": "(?=x)"}}}, [("schema.properties.unused.pattern", "invalid_value")]),
        (
            {"propertyNames": {"pattern": "^[A-Z]"}},
            [("variants[0].value", "invalid_value"), ("variants[1].value", "invalid_value")],
        ),
    ]:
        assert blamed_in(LIMITS | {"schema": schema}) == expected, schema


def test_parse_flag__schema_that_values_meet__is_taken() -> None:
    for schema in [
        {},
        {"properties": {"limit": {"type": "integer", "minimum": 1}}, "additionalProperties": False},
        {"$defs": {"limit": {"type": "integer"}}, "properties": {"limit": {"$ref": "#/$defs/limit"}}},
        {"propertyNames": {"pattern": "^\\p{Ll}+$"}},
        {"$schema": DIALECT, "title": "Limits", "if": {"required": ["limit"]}, "then": {"minProperties": 1}},
        doubling(3),
        nested(30),
    ]:
        assert parse_flag({"key": "f", "enabled": True, **LIMITS, "schema": schema}).otherwise.value == {"limit": 3}, (
            schema
        )


def test_parse_flag__schema_with_unique_items__compares_as_json_does() -> None:
    for elements, is_taken in [
        ([1, True, "1", [1], {"a": 1}], True),
        ([1, 1.0], False),
        ([{"a": 1, "b": 2}, {"b": 2, "a": 1.0}], False),
    ]:
        values = {"type": "object", "variants": [{"key": "only", "value": {"list": elements}}]}
        document = {**values, "schema": {"properties": {"list": {"uniqueItems": True}}}}
        if is_taken:
            assert parse_flag({"key": "f", "enabled": True, **document}), elements
        else:
            assert blamed_in(document) == [("variants[0].value.list", "invalid_value")], elements


def test_parse_flag__equal_documents__give_equal_flags() -> None:
    document = {"key": "f", "enabled": True, "rules": [ALL, PRO], **COLOURS}
    assert parse_flag(document) == parse_flag(json.loads(json.dumps(document)))
    for change in ({"enabled": False}, {"rules": [ALL]}, {"offVariant": "red"}, {"prerequisites": [{"flag": "a"}]}):
        assert parse_flag(document | change) != parse_flag(document)
