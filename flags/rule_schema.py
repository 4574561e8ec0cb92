"""Rules as the OpenAPI document describes them, derived from the tables of the engine, whose parser decides."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from config.api.schema import NAME, Schema, closed_object, component
from flags.engine.operators import OPERATORS, check_scalars
from flags.engine.shapes import check_number, check_scalar, check_text
from flags.engine.types import RuleType

_SCALAR: Schema = {"type": ["string", "number", "boolean"]}
_KINDS: dict[Any, tuple[str, Schema]] = {
    check_scalar: ("ScalarCondition", {"value": _SCALAR}),
    check_scalars: ("ListCondition", {"value": {"type": "array", "items": _SCALAR, "minItems": 1, "maxItems": 1000}}),
    check_text: ("TextCondition", {"value": {"type": "string", "minLength": 1}}),
    check_number: ("NumberCondition", {"value": {"type": "number"}}),
    None: ("PresenceCondition", {}),
}
"""By what checks the value that an operator compares with."""


def _condition() -> Schema:
    """One alternative for each kind of value that operators compare with."""
    alike: dict[Any, list[str]] = defaultdict(list)
    for name, operator in OPERATORS.items():
        alike[operator.check].append(name)
    alternatives = []
    for check, names in alike.items():
        kind, value = _KINDS[check]
        attribute = {**NAME, "description": "`userId` is always there."}
        operators = {"type": "string", "enum": names}
        alternatives.append(component(kind, closed_object({"attribute": attribute, "operator": operators, **value})))
    return {
        "description": "What an attribute of the user must be like. A missing attribute, or one of another type than "
        "the value, does not match; only `notExists` matches a missing one.",
        "oneOf": alternatives,
    }


_CONDITION = component("Condition", _condition())


def _rule() -> Schema:
    """One alternative for each type of rule."""
    conditions: Schema = {"type": "array", "items": _CONDITION, "maxItems": 100}
    percentage: Schema = {
        "type": "number",
        "minimum": 0,
        "maximum": 100,
        "multipleOf": 0.001,
        "description": "The share of the audience that the rule takes in.",
    }
    users: Schema = {"type": "array", "items": NAME, "minItems": 1, "maxItems": 10_000, "uniqueItems": True}
    # The first of each is required.
    fields: dict[RuleType, Schema] = {
        RuleType.PERCENTAGE: {"percentage": percentage, "conditions": conditions},
        RuleType.ATTRIBUTE: {"conditions": {**conditions, "minItems": 1}, "percentage": {**percentage, "default": 100}},
        RuleType.USERS: {"userIds": users, "percentage": {**percentage, "default": 100}, "conditions": conditions},
    }
    return {
        "description": "An audience, which is who meets all `conditions` and, of type `users`, is listed; and a share "
        "of it. Rules are tried in order, and the first that takes the user in decides.",
        "oneOf": [
            component(
                f"{kind.value.capitalize()}Rule",
                closed_object(
                    {"type": {"type": "string", "enum": [kind.value]}, **properties}, optional=list(properties)[1:]
                ),
            )
            for kind, properties in fields.items()
        ],
    }


RULES: Schema = {"type": "array", "items": component("Rule", _rule()), "maxItems": 200}
