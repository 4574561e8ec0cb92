"""How the OpenAPI document describes what an evaluation answers, and the account of how it came about."""

from __future__ import annotations

from config.api.schema import KEY, Schema, closed_object, component
from flags.engine.assignment import Exclusion
from flags.engine.operators import OPERATORS
from flags.engine.types import Reason, RuleType

_TEXT: Schema = {"type": "string"}
_MOMENT: Schema = {"type": "string", "format": "date-time"}
_SWITCH: Schema = {"type": "boolean"}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_ANY: Schema = {"description": "Any JSON."}

ANSWER: Schema = {
    "enabled": {**_SWITCH, "description": "Whether it is on for the user; of type boolean, the value served."},
    "reason": {"type": "string", "enum": [reason.value for reason in Reason]},
    "variant": {**KEY, "description": "The variant served, where the flag has variants."},
    "value": {"description": "Its value, where the flag has variants."},
}
SERVED = ("variant", "value")


def _step(test: str, facts: Schema, description: str, *, optional: tuple[str, ...] = ()) -> Schema:
    """One kind of step. `passed` says what its test found."""
    fields = {"test": {"type": "string", "enum": [test]}, **facts, "passed": _SWITCH}
    name = f"{test.capitalize()}Step"
    return component(name, closed_object(fields, description, optional=optional))


_CONDITION_STEP: Schema = {"$ref": "#/components/schemas/ConditionStep"}
_SEGMENT_FACTS: Schema = {
    "segment": KEY,
    "isMember": _SWITCH,
    "exists": {**_SWITCH, "description": "False where there is no such segment."},
    "isListed": {**_SWITCH, "description": "Whether the user id is one of its `userIds`."},
    "conditions": {"type": "array", "items": _CONDITION_STEP},
}
_SOMETIMES = ("exists", "isListed", "conditions")
_STEPS = (
    _step("enabled", {}, "The rule is switched off."),
    _step(
        "schedule",
        {"startAt": _MOMENT, "endAt": _MOMENT, "now": _MOMENT},
        "The rule holds from `startAt` to before `endAt`.",
        optional=("startAt", "endAt"),
    ),
    _step("users", {"actual": _TEXT, "userCount": _COUNT}, "The rule lists user ids; `actual` is that of the user."),
    _step("segment", _SEGMENT_FACTS, "The rule is for members of a segment.", optional=_SOMETIMES),
    _step(
        "condition",
        {
            "attribute": _TEXT,
            "operator": {"type": "string", "enum": list(OPERATORS)},
            "value": _ANY,
            "ignoreCase": _SWITCH,
            "negate": _SWITCH,
            "actual": {"description": "What the user has; left out where that is nothing."},
            "segment": component(
                "ExplainedSegment",
                closed_object(_SEGMENT_FACTS, "The segment that the condition asks for.", optional=_SOMETIMES),
            ),
        },
        "An attribute is compared.",
        optional=("attribute", "value", "ignoreCase", "negate", "actual", "segment"),
    ),
    _step(
        "share",
        {
            "percentage": {"type": "number", "description": "The share at that moment."},
            "threshold": {**_COUNT, "description": "Buckets below it are taken in."},
            "salt": _TEXT,
            "bucketBy": {**_TEXT, "description": "The attribute that decides in place of the user id."},
            "bucketed": {**_TEXT, "description": "What was bucketed; left out where there is nothing."},
            "bucket": {**_COUNT, "maximum": 99_999},
        },
        "The rule is for a share of its audience.",
        optional=("bucketBy", "bucketed", "bucket"),
    ),
)
_GROUP_STEP: Schema = _step(
    "group",
    {
        "group": KEY,
        "from": {"type": "number"},
        "to": {"type": "number"},
        "bucket": {**_COUNT, "maximum": 99_999},
    },
    "The experiment is for a part of a group.",
)
_PARTS: Schema = {"type": "array", "items": {"$ref": "#/components/schemas/SplitPart"}}
_ASSIGNMENT: Schema = closed_object(
    {
        "experiment": KEY,
        "variant": {**KEY, "description": "That of the experiment."},
        "inExperiment": {**_SWITCH, "description": "Whether the user counts for the experiment."},
        "reason": {"type": "string", "enum": [each.value for each in Exclusion], "description": "Why not."},
        "stored": {**KEY, "description": "The variant that the user has been shown before, which stays."},
        "split": _PARTS,
        "salt": _TEXT,
        "bucket": {**_COUNT, "maximum": 99_999},
        "steps": {
            "type": "array",
            "items": {"oneOf": [_GROUP_STEP, _CONDITION_STEP, {"$ref": "#/components/schemas/ShareStep"}]},
            "description": "What makes the audience, in its order; the first that has not passed is the reason.",
        },
    },
    "Of a rule of an experiment: whether the user is in it, and with which variant.",
    optional=("reason", "stored"),
)
_SERVES: Schema = closed_object(
    {
        "enabled": _SWITCH,
        "variant": KEY,
        "value": _ANY,
        "split": _PARTS,
        "salt": _TEXT,
        "bucket": {**_COUNT, "maximum": 99_999},
    },
    "What the rule serves this user.",
    optional=("variant", "value", "split", "salt", "bucket"),
)
_EXPLAINED_RULE = closed_object(
    {
        "index": _COUNT,
        "type": {"type": "string", "enum": [each.value for each in RuleType]},
        "name": _TEXT,
        "matches": {**_SWITCH, "description": "Whether every step has passed."},
        "isServed": {**_SWITCH, "description": "Whether this is the rule that decided; others may match after it."},
        "steps": {"type": "array", "items": {"oneOf": list(_STEPS)}},
        "assignment": component("ExplainedAssignment", _ASSIGNMENT),
        "serves": component("ExplainedServing", _SERVES),
    },
    optional=("name", "assignment", "serves"),
)
_EXPLAINED_PREREQUISITE = closed_object(
    {"flag": KEY, "variants": {"type": "array", "items": KEY}, **ANSWER, "isMet": _SWITCH},
    "What another flag that this one needs is for the user.",
    optional=("variants", "enabled", "reason", *SERVED),
)
EXPLANATION = component(
    "Explanation",
    closed_object(
        {
            "flag": KEY,
            **ANSWER,
            "isEnabled": {**_SWITCH, "description": "Whether the flag itself is on, and not archived."},
            "prerequisites": {"type": "array", "items": component("ExplainedPrerequisite", _EXPLAINED_PREREQUISITE)},
            "rules": {"type": "array", "items": component("ExplainedRule", _EXPLAINED_RULE)},
            "environment": KEY,
            "at": {**_MOMENT, "description": "By which clock."},
            "revision": {**_COUNT, "description": "Of the configuration that was explained."},
        },
        "What a flag is for a user, with all that led to it.",
        optional=SERVED,
    ),
)
