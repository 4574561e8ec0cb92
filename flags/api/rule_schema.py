"""Rules and conditions in the OpenAPI document, derived from the tables that check them.

Descriptions say what a schema cannot: times are in order, patterns are valid, variants are those of the flag.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from config.answers import reference
from config.api.schema import KEY, MOMENT, NAME, Schema, closed_object, component
from config.api.structs import Answer, Key, Name, described, schema_of, shaped
from flags.engine.operands import Operand
from flags.engine.operators import OPERATORS
from flags.engine.types import RuleType
from flags.explanations.answers import SplitPart
from flags.validation.conditions import OPERANDS
from flags.validation.rules import CONDITIONS, MAX_FORCED, MAX_RULES, PERCENTAGE, RULE_FIELDS
from flags.validation.shapes import MAX_VARIANTS, MAX_WEIGHT

__all__ = ["CONDITIONS", "RULES"]

# No `default`: client generators would make the property required, or add it to what they read.
_MODIFIERS: Schema = {
    "ignoreCase": {"type": "boolean", "description": "Compare texts without regard to case. Default: false."},
    "negate": {"type": "boolean", "description": "Match if the comparison does not hold. Default: false."},
}


def _add_condition() -> None:
    by_operand: dict[Operand, list[str]] = defaultdict(list)
    for name, operator in OPERATORS.items():
        by_operand[operator.operand].append(name)
    # Clients that try the types in order would iterate over the value to read a list, which fails for a number.
    by_operand[Operand.LIST] = by_operand.pop(Operand.LIST)
    alternatives = {operand: _condition_with(operand, names) for operand, names in by_operand.items()}
    kinds = {name: alternatives[operator.operand]["$ref"] for name, operator in OPERATORS.items()}
    component(
        "Condition",
        {
            "description": "A test of an attribute of the user. The operator decides which kind "
            "of condition it is. If the attribute is a list, one of its elements must match. "
            "Negative operators, and `negate`, match if the comparison does not hold. If the "
            "attribute is missing, or of another type than the value, the condition does not "
            "match, negated or not; only `notExists` matches a missing attribute. Lists of more "
            "than 1,000 elements never match. With `matches`, texts of more than 4,096 characters "
            "never match.",
            "anyOf": list(alternatives.values()),
            "discriminator": {"propertyName": "operator", "mapping": kinds},
        },
    )


def _condition_with(operand: Operand, names: list[str]) -> Schema:
    needs_attribute = all(OPERATORS[name].needs_attribute for name in names)
    attribute: Schema = (
        {
            **NAME,
            "description": "The name of the attribute. Every user has `userId`. `a.b` is the attribute of that "
            "name or, without one, `b` within the object `a`.",
        }
        if needs_attribute
        else {"type": "string", "enum": ["userId"], "description": "Leave it out: this operator needs no attribute."}
    )
    operator: Schema = {"type": "string", "enum": names, "description": "How to compare."}
    value_schema = OPERANDS[operand].schema
    value: Schema = (
        {} if value_schema is None else {"value": {"description": "The value to compare with.", **value_schema}}
    )
    optional = [*_MODIFIERS, *([] if needs_attribute else ["attribute"])]
    properties = {"attribute": attribute, "operator": operator, **value, **_MODIFIERS}
    return component(f"{operand}Condition", closed_object(properties, optional=optional))


class ServedVariant(Answer):
    """A variant of an experiment."""

    key: Annotated[Key, described("The key of the variant.")]
    weight: Annotated[float, Meta(ge=0, le=MAX_WEIGHT), described("Relative to the sum of all weights.")]
    serves: Annotated[
        Any,
        shaped({"anyOf": [KEY, {"type": "boolean"}]}),
        described("The variant of the flag. For a flag without variants: whether it is on."),
    ]


_Percent = Annotated[float, Meta(ge=0, le=100, extra_json_schema={"multipleOf": 0.001})]


class GroupRange(Answer):
    """The part of a group that is in the experiment, in percent."""

    key: Annotated[Key, described("The key of the group.")]
    start: Annotated[_Percent, described("The start of the part, in percent.")] = msgspec.field(name="from")
    end: Annotated[_Percent, described("The end of the part, in percent. It is more than `from`.")] = msgspec.field(
        name="to"
    )


class BucketRange(Answer):
    """A range of buckets, in percent."""

    salt: Annotated[Name, described("The salt of the hash.")]
    start: Annotated[_Percent, described("The start of the range, in percent.")] = msgspec.field(name="from")
    end: Annotated[_Percent, described("The end of the range, in percent. It is more than `from`.")] = msgspec.field(
        name="to"
    )


class ExperimentRule(Answer):
    """The rule of a running experiment, which only the experiment writes. You may send it back unchanged.

    It matches the users in the audience of the experiment, those with a forced variant, and those who saw one of its
    variants before. It serves them according to their variant.
    """

    type: Annotated[str, shaped({"enum": [RuleType.EXPERIMENT.value]}), described("The type of the rule.")]
    experiment: Annotated[Key, described("The key of the experiment, which is also the salt.")]
    variants: Annotated[
        list[ServedVariant],
        Meta(min_length=2, max_length=MAX_VARIANTS),
        described("The variants of the experiment, the control first. Keys are distinct; weights add up to above 0."),
    ]
    percentage: Annotated[
        _Percent | UnsetType, described("The percentage of the audience that is in the experiment. Default: 100.")
    ] = UNSET
    conditions: Annotated[list[Any] | UnsetType, shaped(CONDITIONS), described("The audience.")] = UNSET
    group: Annotated[GroupRange | UnsetType, described("The part of a group, if it is in one.")] = UNSET
    forced: Annotated[
        dict[str, Key] | UnsetType,
        shaped({"maxProperties": MAX_FORCED, "propertyNames": NAME}),
        described("Variants by the ids of users who always see them. These users are not in the experiment."),
    ] = UNSET


# The fields that each type of rule requires, and those it may not have. A ramp replaces the percentage.
_RULES = {
    "PercentageRule": (RuleType.PERCENTAGE, "percentage", ("userIds", "segment")),
    "RampRule": (RuleType.PERCENTAGE, "ramp", ("userIds", "segment", "percentage")),
    "AttributeRule": (RuleType.ATTRIBUTE, "conditions", ("userIds", "segment")),
    "UsersRule": (RuleType.USERS, "userIds", ("segment",)),
    "SegmentRule": (RuleType.SEGMENT, "segment", ("userIds",)),
}


def _rule_of(kind: RuleType, required: str, without: tuple[str, ...]) -> Schema:
    properties = {name: field.schema for name, field in RULE_FIELDS.items() if name not in without}
    properties["type"] = {"type": "string", "enum": [kind.value], "description": "The type of the rule."}
    if required == "conditions":
        properties["conditions"] = {**CONDITIONS, "minItems": 1}
    described_as = closed_object(properties, optional=[name for name in properties if name not in ("type", required)])
    return {**described_as, "not": {"required": ["variant", "split"]}}


def _add_rule() -> None:
    step: Schema = {"at": {**MOMENT, "description": "When the step begins."}, "percentage": PERCENTAGE}
    component("RampStep", closed_object(step, "A percentage that applies from a moment on."))
    schema_of(SplitPart)
    schema_of(BucketRange)
    alternatives = [component(name, _rule_of(*rule)) for name, rule in _RULES.items()]
    component(
        "Rule",
        {
            "description": "An audience, a share of it, and what these users are served. The audience is all users who "
            "meet all `conditions` and, by type, are listed or are members of the segment. Rules are tried in order, "
            "and the first that matches the user decides.",
            "anyOf": [*alternatives, schema_of(ExperimentRule)],
        },
    )


_add_condition()
_add_rule()
RULES: Schema = {"type": "array", "items": reference("Rule"), "maxItems": MAX_RULES}
