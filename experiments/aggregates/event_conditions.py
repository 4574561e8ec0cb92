"""SQL for the conditions of metrics on the properties of events.

Both databases compute what `experiments.metrics.conditions.meets` does: a property is compared with values of its own
JSON type alone, so one that is missing, null or of another type meets no comparison, not even a negative one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import orjson
from django.db import connection

from experiments.metrics.definition import Condition, Quantity

Put = Callable[[Any], str]
"""Adds a parameter to a statement and returns its placeholder."""

_SIGNS = {"greaterThan": ">", "greaterThanOrEqual": ">=", "lessThan": "<", "lessThanOrEqual": "<="}
_EQUALITIES = {"equals": True, "in": True, "notEquals": False, "notIn": False}
_TEXT, _NUMBER, _BOOLEAN = "text", "number", "boolean"
_KINDS: Mapping[type, str] = {str: _TEXT, bool: _BOOLEAN, int: _NUMBER, float: _NUMBER}


def is_of(quantity: Quantity, put: Put) -> str:
    """Return SQL that is true for the events of a quantity: those of its name that meet its conditions."""
    holds = _holds_on_postgresql if connection.vendor == "postgresql" else _holds_on_sqlite
    return " AND ".join([f"name = {put(quantity.event)}", *(holds(condition, put) for condition in quantity.where)])


def _by_kind(value: Any) -> Mapping[str, Sequence[Any]]:
    """Return the values of a condition by their JSON type."""
    by_kind: dict[str, list[Any]] = {}
    for member in value if isinstance(value, tuple) else (value,):
        by_kind.setdefault(_KINDS[type(member)], []).append(member)
    return by_kind


_TYPES_OF_POSTGRESQL = {_TEXT: "string", _NUMBER: "number", _BOOLEAN: "boolean"}


def _holds_on_postgresql(condition: Condition, put: Put) -> str:
    name = f"{put(condition.property)}::text"
    value, kind = f"(properties -> {name})", f"jsonb_typeof(properties -> {name})"
    if condition.operator in _EQUALITIES:
        members = _by_kind(condition.value)
        listed = ", ".join(f"{_json(member, put)}" for group in members.values() for member in group)
        kinds = ", ".join(f"'{_TYPES_OF_POSTGRESQL[group]}'" for group in members)
        is_wanted = "IN" if _EQUALITIES[condition.operator] else "NOT IN"
        return f"({kind} IN ({kinds}) AND {value} {is_wanted} ({listed}))"
    if condition.operator in _SIGNS:
        compared = f"{value}::numeric {_SIGNS[condition.operator]} {_json(condition.value, put)}::numeric"
        return f"(CASE WHEN {kind} = 'number' THEN {compared} ELSE FALSE END)"
    if condition.operator == "contains":
        return f"({kind} = 'string' AND strpos(properties ->> {name}, {put(condition.value)}) > 0)"
    if condition.operator == "startsWith":
        return f"({kind} = 'string' AND starts_with(properties ->> {name}, {put(condition.value)}))"
    return f"(COALESCE({kind}, 'null') {'<>' if condition.operator == 'exists' else '='} 'null')"


def _json(value: Any, put: Put) -> str:
    return f"{put(orjson.dumps(value).decode())}::jsonb"


def _holds_on_sqlite(condition: Condition, put: Put) -> str:
    """Return SQL with a search for the property; JSON paths mean different things in different versions."""
    negation = "NOT " if condition.operator == "notExists" else ""
    found = f"key = {put(condition.property)} AND ({' OR '.join(_matches_on_sqlite(condition, put))})"
    return f"{negation}EXISTS (SELECT 1 FROM json_each(properties) WHERE {found})"  # noqa: S608 (no data)


def _matches_on_sqlite(condition: Condition, put: Put) -> Iterator[str]:
    """Yield the alternatives that a property may meet, by its `type` and `value`."""
    if condition.operator in _EQUALITIES:
        for kind, members in _by_kind(condition.value).items():
            yield _is_member_on_sqlite(kind, members, _EQUALITIES[condition.operator], put)
    elif condition.operator in _SIGNS:
        yield f"type IN ('integer', 'real') AND value {_SIGNS[condition.operator]} {put(condition.value)}"
    elif condition.operator == "contains":
        yield f"type = 'text' AND instr(value, {put(condition.value)}) > 0"
    elif condition.operator == "startsWith":
        text = put(condition.value)
        yield f"type = 'text' AND substr(value, 1, length({text})) = {text}"
    else:
        yield "type <> 'null'"


def _is_member_on_sqlite(kind: str, members: Sequence[Any], is_wanted: bool, put: Put) -> str:
    if kind == _BOOLEAN:
        chosen = {"true" if member else "false" for member in members}
        matching = sorted(chosen if is_wanted else {"true", "false"} - chosen)
        return f"type IN ({', '.join(map(repr, matching))})"
    types = "type = 'text'" if kind == _TEXT else "type IN ('integer', 'real')"
    return f"{types} AND value {'IN' if is_wanted else 'NOT IN'} ({', '.join(map(put, members))})"
