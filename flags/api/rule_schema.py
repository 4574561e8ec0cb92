"""Rules and conditions as the OpenAPI document describes them, derived from the tables of the engine, which decides.

What a schema cannot say stands in the descriptions: moments are in order, patterns valid, variants those of the flag.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from config.api.schema import KEY, MOMENT, NAME, Schema, closed_object, component
from config.api.structs import schema_of
from flags.engine.experiment_rule import MOST_FORCED
from flags.engine.operators import (
    OPERATORS,
    check_networks,
    check_pattern,
    check_scalars,
    check_time,
    check_version,
)
from flags.engine.rule_checks import MOST_RULES
from flags.engine.shapes import MOST_VARIANTS, MOST_WEIGHT, check_key, check_number, check_scalar, check_text
from flags.engine.trace import SplitPart
from flags.engine.types import RuleType

_SCALAR: Schema = {"type": ["string", "number", "boolean"]}
_RELATIVE_TIME: Schema = {"type": "string", "pattern": "^[+-][0-9]{1,5}[smhdw]$"}
_NETWORK: Schema = {"type": "string", "description": "An IP network in CIDR notation, such as `10.0.0.0/8`."}
_VERSION: Schema = {"type": "string", "description": "A semantic version, such as `2.1.0` or `2.1.0-beta.1`."}
_PATTERN: Schema = {
    "type": "string",
    "minLength": 1,
    "maxLength": 1000,
    "description": "A regular expression of RE2, found anywhere in the attribute; `^` and `$` tie it down.",
}
_KINDS: dict[Any, tuple[str, Schema]] = {
    check_scalar: ("ScalarCondition", {"value": _SCALAR}),
    check_scalars: ("ListCondition", {"value": {"type": "array", "items": _SCALAR, "minItems": 1, "maxItems": 1000}}),
    check_text: ("TextCondition", {"value": {"type": "string", "minLength": 1}}),
    check_pattern: ("PatternCondition", {"value": _PATTERN}),
    check_number: ("NumberCondition", {"value": {"type": "number"}}),
    check_time: (
        "TimeCondition",
        {"value": {"anyOf": [*MOMENT["anyOf"], _RELATIVE_TIME], "description": "A moment, or `-7d`: a week ago."}},
    ),
    check_version: ("VersionCondition", {"value": _VERSION}),
    check_networks: (
        "NetworkCondition",
        {"value": {"anyOf": [_NETWORK, {"type": "array", "items": _NETWORK, "minItems": 1, "maxItems": 1000}]}},
    ),
    check_key: ("SegmentCondition", {"value": {**KEY, "description": "The key of a segment."}}),
    None: ("PresenceCondition", {}),
}
"""By what checks the value that an operator compares with."""

_MODIFIERS: Schema = {
    "ignoreCase": {"type": "boolean", "default": False, "description": "Compare texts without regard to case."},
    "negate": {"type": "boolean", "default": False, "description": "Hold where the comparison does not."},
}


def _condition() -> Schema:
    """One alternative for each kind of value that operators compare with."""
    alike: dict[Any, list[str]] = defaultdict(list)
    for name, operator in OPERATORS.items():
        alike[operator.check].append(name)
    alternatives = []
    for check, names in alike.items():
        kind, value = _KINDS[check]
        needs_attribute = all(OPERATORS[name].needs_attribute for name in names)
        attribute: Schema = (
            {**NAME, "description": "`userId` is always there."}
            if needs_attribute
            else {"type": "string", "enum": ["userId"]}
        )
        operators = {"type": "string", "enum": names}
        optional = [*_MODIFIERS, *([] if needs_attribute else ["attribute"])]
        fields = {"attribute": attribute, "operator": operators, **value, **_MODIFIERS}
        alternatives.append(component(kind, closed_object(fields, optional=optional)))
    return {
        "description": "What an attribute of the user must be like. An attribute that is a list is so if any of its "
        "elements is. Negative operators, and `negate`, hold where the comparison does not. A missing attribute, or "
        "one of another type than the value, matches neither way; only `notExists` matches a missing one. Lists of "
        "more than 1,000 elements, and for `matches` texts of more than 4,096 characters, are not looked into and "
        "match neither way.",
        "oneOf": alternatives,
    }


CONDITIONS: Schema = {"type": "array", "items": component("Condition", _condition()), "maxItems": 100}

_PERCENTAGE: Schema = {
    "type": "number",
    "minimum": 0,
    "maximum": 100,
    "multipleOf": 0.001,
    "description": "The share of the audience that the rule takes in.",
}
_SWITCH: Schema = {"type": "boolean", "default": True, "description": "Whether the rule takes anybody in."}
_RAMP: Schema = {
    "type": "array",
    "items": component("RampStep", closed_object({"at": MOMENT, "percentage": _PERCENTAGE})),
    "minItems": 1,
    "maxItems": 100,
    "description": "From the moment of each step on, its percentage holds; before the first, the rule's own or 0. "
    "The steps stand in order of time.",
}
_SPLIT: Schema = {
    "type": "array",
    "items": schema_of(SplitPart),
    "minItems": 1,
    "maxItems": 50,
    "description": "Variants of the flag, each once, with weights of a sum above 0: who gets which is a matter of the "
    "user's bucket under the salt with `:variant` behind it.",
}
_OPTIONAL: dict[str, Schema] = {
    "name": {**NAME, "description": "What people call the rule."},
    "enabled": _SWITCH,
    "startAt": {**MOMENT, "description": "The rule takes nobody in before."},
    "endAt": {**MOMENT, "description": "The rule takes nobody in from then on; later than `startAt`."},
    "salt": {**NAME, "description": "In place of the flag's key, to draw other users."},
    "bucketBy": {
        **NAME,
        "description": "An attribute with a text or a whole number that decides in place of the user id, such as a "
        "company; the rule does not take in users without it.",
    },
    "ramp": _RAMP,
    "variant": {**KEY, "description": "The variant that the rule serves, in place of `defaultVariant`."},
    "split": _SPLIT,
}


_SERVED: dict[str, Schema] = {
    "key": KEY,
    "weight": {"type": "number", "minimum": 0, "maximum": MOST_WEIGHT},
    "serves": {
        "anyOf": [KEY, {"type": "boolean"}],
        "description": "The variant of the flag or, of a flag without variants, whether it is on.",
    },
}
_RANGE: dict[str, Schema] = {
    "key": KEY,
    "from": {"type": "number", "minimum": 0, "maximum": 100, "multipleOf": 0.001},
    "to": {"type": "number", "minimum": 0, "maximum": 100, "multipleOf": 0.001, "description": "More than `from`."},
}
_OF_EXPERIMENT: dict[str, Schema] = {
    "type": {"type": "string", "enum": [RuleType.EXPERIMENT.value]},
    "experiment": {**KEY, "description": "The key of the experiment, which is the salt."},
    "variants": {
        "type": "array",
        "items": component("ServedVariant", closed_object(_SERVED, "A variant of an experiment.")),
        "minItems": 2,
        "maxItems": MOST_VARIANTS,
        "description": "Those of the experiment, by distinct keys, the control first, with weights of a sum above 0.",
    },
    "percentage": {
        **_PERCENTAGE,
        "default": 100,
        "description": "The share of the audience that is in it.",
    },
    "conditions": CONDITIONS,
    "group": component("GroupRange", closed_object(_RANGE, "The part of a group that is in it, in percent.")),
    "forced": {
        "type": "object",
        "additionalProperties": KEY,
        "propertyNames": NAME,
        "maxProperties": MOST_FORCED,
        "description": "Variants by the ids of users who see them and are not in the experiment.",
    },
}
_EXPERIMENT_RULE: Schema = closed_object(
    _OF_EXPERIMENT,
    "Written by an experiment when it starts, and by nobody else; it may be sent back unchanged. It takes everybody "
    "in: who is in the experiment is served what their variant stands for, all others what the control does.",
    optional=("percentage", "conditions", "group", "forced"),
)


def _rule() -> Schema:
    """Alternatives for each type of rule; what stands first beside the type is required."""
    share = {"percentage": {**_PERCENTAGE, "default": 100}, **_OPTIONAL}
    conditions: dict[str, Schema] = {"conditions": CONDITIONS}
    user_ids: Schema = {"type": "array", "items": NAME, "minItems": 1, "maxItems": 10_000, "uniqueItems": True}
    segment: Schema = {**KEY, "description": "The key of a segment."}
    alternatives: dict[str, tuple[RuleType, dict[str, Schema]]] = {
        "PercentageRule": (RuleType.PERCENTAGE, {"percentage": _PERCENTAGE, **conditions, **_OPTIONAL}),
        "RampRule": (RuleType.PERCENTAGE, {"ramp": _RAMP, **conditions, **_OPTIONAL}),
        "AttributeRule": (RuleType.ATTRIBUTE, {"conditions": {**CONDITIONS, "minItems": 1}, **share}),
        "UsersRule": (RuleType.USERS, {"userIds": user_ids, **conditions, **share}),
        "SegmentRule": (RuleType.SEGMENT, {"segment": segment, **conditions, **share}),
    }
    return {
        "description": "An audience, which is who meets all `conditions` and, of type `users` or `segment`, is listed "
        "or a member; a share of it; and what they are served. Rules are tried in order, and the first that takes "
        "the user in decides.",
        "oneOf": [
            *(component(name, _alternative(kind, fields)) for name, (kind, fields) in alternatives.items()),
            component("ExperimentRule", _EXPERIMENT_RULE),
        ],
    }


def _alternative(kind: RuleType, fields: dict[str, Schema]) -> Schema:
    properties = {"type": {"type": "string", "enum": [kind.value]}, **fields}
    described = closed_object(properties, optional=list(properties)[2:])
    return {**described, "not": {"required": ["variant", "split"]}}


RULES: Schema = {"type": "array", "items": component("Rule", _rule()), "maxItems": MOST_RULES}
