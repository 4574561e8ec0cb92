"""Rows: the wrong JSON type for each field of each operation."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from tests.config.api.malformed.cases import (
    BATCH,
    CREATE_EXPERIMENT,
    CREATE_FLAG,
    CREATE_METRIC,
    CREATE_SEGMENT,
    EVALUATE,
    EVALUATE_ALL,
    EXPLAIN,
    PREVIEW,
    REVERT,
    TRACK,
    UPDATE_EXPERIMENT,
    UPDATE_FLAG,
    UPDATE_METRIC,
    UPDATE_SEGMENT,
    VARIANT,
    Case,
    Operation,
)

_STRINGS = {"a number": 42, "null": None, "a boolean": True, "an array": ["x"], "an object": {"x": 1}}
_BOOLEANS = {"a number": 1, "null": None, "a string": "true", "an array": [], "an object": {}}
_ARRAYS = {"a number": 1, "null": None, "a string": "abc", "a boolean": False, "an object": {"x": 1}}
_OBJECTS = {"a number": 1, "null": None, "a string": "abc", "a boolean": False, "an array": [["a", 1]]}
_NUMBERS = {"null": None, "a string": "10", "a boolean": True, "an array": [1], "an object": {}}
# Of what null takes away.
_NO_STRINGS = {name: value for name, value in _STRINGS.items() if name != "null"}
_NO_ARRAYS = {name: value for name, value in _ARRAYS.items() if name != "null"}
_NO_BOOLEANS = {name: value for name, value in _BOOLEANS.items() if name != "null"}
_NO_NUMBERS = {name: value for name, value in _NUMBERS.items() if name != "null"}
_DENOMINATORS = {name: value for name, value in _OBJECTS.items() if name != "null"}

_FIELDS: tuple[tuple[Operation, Mapping[str, Mapping[str, Any]]], ...] = (
    (CREATE_FLAG, {"key": _STRINGS, "description": _STRINGS, "enabled": _BOOLEANS, "rules": _ARRAYS}),
    (UPDATE_FLAG, {"description": _STRINGS, "enabled": _BOOLEANS, "rules": _ARRAYS}),
    (CREATE_METRIC, {"key": _STRINGS, "type": _STRINGS, "event": _STRINGS, "denominator": _DENOMINATORS}),
    (
        UPDATE_METRIC,
        {
            "description": _STRINGS,
            "currency": _STRINGS,
            "windowHours": _NO_NUMBERS,
            "delayHours": _NUMBERS,
            "capValue": _NO_NUMBERS,
            "direction": _STRINGS,
            "role": _STRINGS,
        },
    ),
    (EVALUATE, {"userId": _STRINGS, "attributes": _OBJECTS}),
    (
        CREATE_FLAG,
        {
            "type": _NO_STRINGS,
            "variants": _NO_ARRAYS,
            "prerequisites": _NO_ARRAYS,
            "tags": _NO_ARRAYS,
            "owner": _NO_STRINGS,
            "expiresAt": _NO_STRINGS,
            "clientVisible": _NO_BOOLEANS,
        },
    ),
    (
        UPDATE_FLAG,
        {
            "type": _NO_STRINGS,
            "variants": _NO_ARRAYS,
            "prerequisites": _NO_ARRAYS,
            "tags": _NO_ARRAYS,
            "owner": _NO_STRINGS,
            "expiresAt": _NO_STRINGS,
            "clientVisible": _NO_BOOLEANS,
            "defaultVariant": _NO_STRINGS,
            "offVariant": _NO_STRINGS,
        },
    ),
    (EVALUATE_ALL, {"userId": _STRINGS, "attributes": _OBJECTS, "flags": _ARRAYS}),
    (PREVIEW, {"enabled": _BOOLEANS, "rules": _ARRAYS}),
    (EXPLAIN, {"userId": _STRINGS, "attributes": _OBJECTS, "at": _STRINGS}),
    (REVERT, {"revision": _NUMBERS}),
    (CREATE_SEGMENT, {"key": _STRINGS, "description": _STRINGS, "conditions": _ARRAYS, "userIds": _ARRAYS}),
    (UPDATE_SEGMENT, {"description": _STRINGS, "conditions": _ARRAYS, "userIds": _ARRAYS}),
    (CREATE_EXPERIMENT, {"key": _STRINGS, "description": _STRINGS, "variants": _ARRAYS, "metrics": _ARRAYS}),
    (UPDATE_EXPERIMENT, {"description": _STRINGS, "variants": _ARRAYS, "metrics": _ARRAYS}),
    (VARIANT, {"userId": _STRINGS, "attributes": _OBJECTS}),
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
