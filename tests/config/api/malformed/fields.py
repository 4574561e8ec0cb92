"""Rows: values of the right type that are not acceptable in flags and experiments."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from tests.config.api.malformed.cases import (
    BAD_KEYS,
    BAD_TIMESTAMPS,
    CREATE_EXPERIMENT,
    CREATE_FLAG,
    CREATE_METRIC,
    CREATE_SEGMENT,
    EVALUATE,
    EVALUATE_ALL,
    EXPLAIN,
    ID,
    TRACK,
    UPDATE_EXPERIMENT,
    UPDATE_FLAG,
    UPDATE_METRIC,
    UPDATE_SEGMENT,
    VARIANT,
    VARIANTS,
    Case,
    Operation,
)

_CONDITION = {"attribute": "plan", "operator": "equals", "value": "pro"}
_BAD_RULES: Mapping[str, tuple[list[Any], str]] = {
    "a rule is null": ([None], "rules[0]"),
    "a rule is a string": (["percentage"], "rules[0]"),
    "a rule is empty": ([{}], "rules[0].type"),
    "the second is at fault": ([{"type": "percentage", "percentage": 5}, {"type": "x"}], "rules[1].type"),
    "the type of a rule is a number": ([{"type": 1}], "rules[0].type"),
    "type is unknown": ([{"type": "segmnt"}], "rules[0].type"),
    "percentage is missing": ([{"type": "percentage"}], "rules[0].percentage"),
    "percentage is a string": ([{"type": "percentage", "percentage": "10"}], "rules[0].percentage"),
    "percentage is a boolean": ([{"type": "percentage", "percentage": True}], "rules[0].percentage"),
    "percentage is null": ([{"type": "percentage", "percentage": None}], "rules[0].percentage"),
    "percentage is below 0": ([{"type": "percentage", "percentage": -0.001}], "rules[0].percentage"),
    "percentage is above 100": ([{"type": "percentage", "percentage": 100.001}], "rules[0].percentage"),
    "percentage has four decimals": ([{"type": "percentage", "percentage": 0.0001}], "rules[0].percentage"),
    "a field is unknown": ([{"type": "percentage", "percentage": 5, "percent": 1}], "rules[0].percent"),
    "userIds is missing": ([{"type": "users"}], "rules[0].userIds"),
    "userIds is empty": ([{"type": "users", "userIds": []}], "rules[0].userIds"),
    "userIds is a string": ([{"type": "users", "userIds": "u"}], "rules[0].userIds"),
    "a user id is a number": ([{"type": "users", "userIds": ["u", 1]}], "rules[0].userIds[1]"),
    "a user id is empty": ([{"type": "users", "userIds": [""]}], "rules[0].userIds[0]"),
    "a user id has 201 characters": ([{"type": "users", "userIds": ["u" * 201]}], "rules[0].userIds[0]"),
    "conditions is missing": ([{"type": "attribute"}], "rules[0].conditions"),
    "conditions is empty": ([{"type": "attribute", "conditions": []}], "rules[0].conditions"),
    "conditions is an object": ([{"type": "attribute", "conditions": _CONDITION}], "rules[0].conditions"),
    "a condition is null": ([{"type": "attribute", "conditions": [None]}], "rules[0].conditions[0]"),
    "an attribute is missing": (
        [{"type": "attribute", "conditions": [{"operator": "exists"}]}],
        "rules[0].conditions[0].attribute",
    ),
    "an attribute is a number": (
        [{"type": "attribute", "conditions": [{**_CONDITION, "attribute": 1}]}],
        "rules[0].conditions[0].attribute",
    ),
    "an operator is unknown": (
        [{"type": "attribute", "conditions": [{**_CONDITION, "operator": "equal"}]}],
        "rules[0].conditions[0].operator",
    ),
    "an operator is null": (
        [{"type": "attribute", "conditions": [{**_CONDITION, "operator": None}]}],
        "rules[0].conditions[0].operator",
    ),
    "a value is missing": (
        [{"type": "attribute", "conditions": [{"attribute": "plan", "operator": "equals"}]}],
        "rules[0].conditions[0].value",
    ),
    "a value is an object": (
        [{"type": "attribute", "conditions": [{**_CONDITION, "value": {}}]}],
        "rules[0].conditions[0].value",
    ),
    "a value is too many": (
        [{"type": "attribute", "conditions": [{**_CONDITION, "operator": "exists"}]}],
        "rules[0].conditions[0].value",
    ),
    "a number is compared with a text": (
        [{"type": "attribute", "conditions": [{**_CONDITION, "operator": "greaterThan", "value": "9"}]}],
        "rules[0].conditions[0].value",
    ),
    "201 rules": ([{"type": "percentage", "percentage": 5}] * 201, "rules"),
}
_BAD_VARIANTS: Mapping[str, tuple[Any, str]] = {
    "no variant": ([], "variants"),
    "one variant": ([{"key": "a", "weight": 1}], "variants"),
    "51 variants": ([{"key": f"v{at}", "weight": 1} for at in range(51)], "variants"),
    "a variant is a string": (["a", "b"], "variants[0]"),
    "a variant is null": ([VARIANTS[0], None], "variants[1]"),
    "a key is missing": ([{"weight": 1}, VARIANTS[1]], "variants[0].key"),
    "a key is a number": ([{"key": 1, "weight": 1}, VARIANTS[1]], "variants[0].key"),
    "a key is empty": ([{"key": "", "weight": 1}, VARIANTS[1]], "variants[0].key"),
    "a key has a space": ([{"key": "a b", "weight": 1}, VARIANTS[1]], "variants[0].key"),
    "a key stands twice": ([VARIANTS[0], VARIANTS[0]], "variants[1].key"),
    "a weight is missing": ([VARIANTS[0], {"key": "b"}], "variants[1].weight"),
    "a weight is a string": ([VARIANTS[0], {"key": "b", "weight": "1"}], "variants[1].weight"),
    "a weight is a boolean": ([VARIANTS[0], {"key": "b", "weight": True}], "variants[1].weight"),
    "a weight is null": ([VARIANTS[0], {"key": "b", "weight": None}], "variants[1].weight"),
    "a weight is negative": ([VARIANTS[0], {"key": "b", "weight": -1}], "variants[1].weight"),
    "all weights are 0": ([{"key": "a", "weight": 0}, {"key": "b", "weight": 0.0}], "variants"),
    "a field is unknown": ([VARIANTS[0], {"key": "b", "weight": 1, "name": "B"}], "variants[1].name"),
}
_BAD_METRICS: Mapping[str, tuple[Any, str]] = {
    "a metric is a number": ([1], "metrics[0]"),
    "a metric is null": (["buy", None], "metrics[1]"),
    "a metric is empty": ([""], "metrics[0]"),
    "a metric has 201 characters": (["m" * 201], "metrics[0]"),
    "a metric stands twice": (["buy", "buy"], "metrics[1]"),
    "51 metrics": ([f"m{at}" for at in range(51)], "metrics"),
}


def row(operation: Operation, name: str, changed: Mapping[str, Any], field: str) -> Case:
    body = json.dumps({**operation.body, **changed}).encode()
    return Case(f"{operation.name}: {name}", operation.method, operation.path, body, field=field)


def designs() -> Iterator[Case]:
    """Rules, variants and metrics."""
    for operation in (CREATE_FLAG, UPDATE_FLAG):
        for name, (rules, field) in _BAD_RULES.items():
            yield row(operation, name, {"rules": rules}, field)
    for operation in (CREATE_EXPERIMENT, UPDATE_EXPERIMENT):
        for name, (variants, field) in _BAD_VARIANTS.items():
            yield row(operation, name, {"variants": variants}, field)
        for name, (metrics, field) in _BAD_METRICS.items():
            yield row(operation, name, {"metrics": metrics}, field)


def texts() -> Iterator[Case]:
    """Keys, descriptions, names, user ids and timestamps; the required ones left out, too."""
    for operation in (CREATE_FLAG, CREATE_SEGMENT, CREATE_METRIC, CREATE_EXPERIMENT):
        for name, key in BAD_KEYS.items():
            yield row(operation, f"key is {name}", {"key": key}, "key")
    for operation in (CREATE_FLAG, UPDATE_FLAG, CREATE_SEGMENT, UPDATE_SEGMENT, CREATE_EXPERIMENT, UPDATE_EXPERIMENT):
        yield row(operation, "description of 2,001 characters", {"description": "d" * 2001}, "description")
    for name, text in BAD_TIMESTAMPS.items():
        yield row(TRACK, f"timestamp is {name}", {"timestamp": text}, "timestamp")
        yield row(EXPLAIN, f"at is {name}", {"at": text}, "at")
        yield row(UPDATE_FLAG, f"expiresAt is {name}", {"expiresAt": text}, "expiresAt")
    users = ((EVALUATE, "userId"), (EVALUATE_ALL, "userId"), (EXPLAIN, "userId"))
    for operation, field in (*users, (VARIANT, "userId"), (TRACK, "userId"), (TRACK, "event")):
        for name, text in {"empty": "", "of 201 characters": "u" * 201, "of 201 emoji": "\U0001f642" * 201}.items():
            yield row(operation, f"{field} is {name}", {field: text}, field)
        rest = {name: value for name, value in operation.body.items() if name != field}
        yield row(operation._replace(body=rest), f"{field} is missing", {}, field)


def read_only() -> Iterator[Case]:
    """What the service sets: not there on creation, not another one in an update."""
    for operation, field, value in (
        (CREATE_FLAG, "id", ID),
        (CREATE_FLAG, "createdAt", "2026-01-31T12:00:00Z"),
        (CREATE_FLAG, "updatedAt", "2026-01-31T12:00:00Z"),
        (CREATE_FLAG, "archivedAt", "2026-01-31T12:00:00Z"),
        (UPDATE_FLAG, "archivedAt", "2026-01-31T12:00:00Z"),
        (CREATE_SEGMENT, "id", ID),
        (CREATE_SEGMENT, "updatedAt", "2026-01-31T12:00:00Z"),
        (CREATE_METRIC, "version", 1),
        (CREATE_METRIC, "usedBy", []),
        (UPDATE_METRIC, "id", ID),
        (UPDATE_METRIC, "key", "other"),
        (UPDATE_METRIC, "version", 2),
        (UPDATE_SEGMENT, "id", ID),
        (UPDATE_SEGMENT, "key", "other"),
        (UPDATE_SEGMENT, "createdAt", "2026-01-31"),
        (UPDATE_FLAG, "id", ID),
        (UPDATE_FLAG, "id", None),
        (UPDATE_FLAG, "key", "other"),
        (UPDATE_FLAG, "key", ["known"]),
        (UPDATE_FLAG, "createdAt", "2026-01-31"),
        (UPDATE_FLAG, "updatedAt", 0),
        (CREATE_EXPERIMENT, "id", ID),
        (CREATE_EXPERIMENT, "status", "running"),
        (CREATE_EXPERIMENT, "results", {}),
        (CREATE_EXPERIMENT, "startedAt", "2026-01-31T12:00:00Z"),
        (UPDATE_EXPERIMENT, "id", ID),
        (UPDATE_EXPERIMENT, "key", "other"),
        (UPDATE_EXPERIMENT, "status", "running"),
        (UPDATE_EXPERIMENT, "createdAt", "2026-01-31"),
        (UPDATE_EXPERIMENT, "stoppedAt", "2026-01-31T12:00:00Z"),
    ):
        yield row(operation, f"{field} is sent as {value!r}", {field: value}, field)
