"""Rows: the wrong JSON type for each field of each operation."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from tests.config.api.malformed.cases import (
    BATCH,
    CREATE_EXPERIMENT,
    CREATE_FLAG,
    EVALUATE,
    TRACK,
    UPDATE_EXPERIMENT,
    UPDATE_FLAG,
    VARIANT,
    Case,
    Operation,
)

_STRINGS = {"a number": 42, "null": None, "a boolean": True, "an array": ["x"], "an object": {"x": 1}}
_BOOLEANS = {"a number": 1, "null": None, "a string": "true", "an array": [], "an object": {}}
_ARRAYS = {"a number": 1, "null": None, "a string": "abc", "a boolean": False, "an object": {"x": 1}}
_OBJECTS = {"a number": 1, "null": None, "a string": "abc", "a boolean": False, "an array": [["a", 1]]}
_NUMBERS = {"null": None, "a string": "10", "a boolean": True, "an array": [1], "an object": {}}

_FIELDS: tuple[tuple[Operation, Mapping[str, Mapping[str, Any]]], ...] = (
    (CREATE_FLAG, {"key": _STRINGS, "description": _STRINGS, "enabled": _BOOLEANS, "rules": _ARRAYS}),
    (UPDATE_FLAG, {"description": _STRINGS, "enabled": _BOOLEANS, "rules": _ARRAYS}),
    (EVALUATE, {"userId": _STRINGS, "attributes": _OBJECTS}),
    (CREATE_EXPERIMENT, {"key": _STRINGS, "description": _STRINGS, "variants": _ARRAYS, "metrics": _ARRAYS}),
    (UPDATE_EXPERIMENT, {"description": _STRINGS, "variants": _ARRAYS, "metrics": _ARRAYS}),
    (VARIANT, {"userId": _STRINGS}),
    (
        TRACK,
        {
            "id": _STRINGS,
            "event": _STRINGS,
            "userId": _STRINGS,
            "timestamp": _STRINGS,
            "properties": _OBJECTS,
            "properties.revenue": _NUMBERS,
            "properties.currency": _STRINGS,
            "properties.experimentId": _STRINGS,
            "properties.variant": _STRINGS,
        },
    ),
    (BATCH, {"events": _ARRAYS}),
)


def _with(body: dict[str, Any], field: str, value: Any) -> bytes:
    head, _, inner = field.partition(".")
    return json.dumps({**body, head: {**body[head], inner: value} if inner else value}).encode()


def wrong_types() -> Iterator[Case]:
    for operation, fields in _FIELDS:
        for field, wrong in fields.items():
            for kind, value in wrong.items():
                yield Case(
                    f"{operation.name}: {field} is {kind}",
                    operation.method,
                    operation.path,
                    _with(operation.body, field, value),
                    field=field,
                )
