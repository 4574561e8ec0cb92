"""How the OpenAPI document describes the operations that evaluate, and the answers that the engine makes for them."""

from __future__ import annotations

from drf_spectacular.utils import OpenApiExample, extend_schema

from config.api.schema import KEY, REVISION, Schema, answer, closed_object, component, errors, key_in_path
from config.errors import ErrorCode
from flags.engine.operators import OPERATORS
from flags.engine.types import Reason, RuleType
from flags.evaluation_serializers import (
    EvaluationRequestSerializer,
    EvaluationsRequestSerializer,
    ExplanationRequestSerializer,
)

_KEY = key_in_path("flag_key", "flag")
_TEXT: Schema = {"type": "string"}
_MOMENT: Schema = {"type": "string", "format": "date-time"}
_SWITCH: Schema = {"type": "boolean"}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_ANY: Schema = {"description": "Any JSON."}

_ANSWER: Schema = {
    "enabled": {**_SWITCH, "description": "Whether it is on for the user; of type boolean, the value served."},
    "reason": {"type": "string", "enum": [reason.value for reason in Reason]},
    "variant": {**KEY, "description": "The variant served, where the flag has variants."},
    "value": {"description": "Its value, where the flag has variants."},
}
_SERVED = ("variant", "value")
EVALUATION = component("Evaluation", closed_object(_ANSWER, "What a flag is for a user, and why.", optional=_SERVED))

_UNKNOWN = closed_object({"code": {"type": "string", "enum": [ErrorCode.FLAG_NOT_FOUND.value]}, "message": _TEXT})
_EVALUATIONS: Schema = component(
    "EvaluationsByKey",
    {
        "type": "object",
        "description": "By the key of each flag what it is for the user, or that there is no such flag.",
        "additionalProperties": {
            "anyOf": [EVALUATION, component("UnknownFlag", closed_object({"error": _UNKNOWN}))],
        },
    },
)

# --- explanations ----------------------------------------------------------------------------------------------------


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
_SERVES: Schema = closed_object(
    {
        "enabled": _SWITCH,
        "variant": KEY,
        "value": _ANY,
        "split": {"type": "array", "items": {"$ref": "#/components/schemas/SplitPart"}},
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
        "serves": component("ExplainedServing", _SERVES),
    },
    optional=("name", "serves"),
)
_EXPLAINED_PREREQUISITE = closed_object(
    {"flag": KEY, "variants": {"type": "array", "items": KEY}, **_ANSWER, "isMet": _SWITCH},
    "What another flag that this one needs is for the user.",
    optional=("variants", "enabled", "reason", *_SERVED),
)
_EXPLANATION = component(
    "Explanation",
    closed_object(
        {
            "flag": KEY,
            **_ANSWER,
            "isEnabled": {**_SWITCH, "description": "Whether the flag itself is on, and not archived."},
            "prerequisites": {"type": "array", "items": component("ExplainedPrerequisite", _EXPLAINED_PREREQUISITE)},
            "rules": {"type": "array", "items": component("ExplainedRule", _EXPLAINED_RULE)},
            "environment": KEY,
            "at": {**_MOMENT, "description": "By which clock."},
            "revision": {**_COUNT, "description": "Of the configuration that was explained."},
        },
        "What a flag is for a user, with all that led to it.",
        optional=_SERVED,
    ),
)

# --- operations ------------------------------------------------------------------------------------------------------

_USER = {"userId": "user-17", "attributes": {"plan": "pro"}}
_MATCH = {"enabled": True, "reason": "rule_match"}
_REASONS = (
    "`disabled` (off in this environment, or archived), `prerequisite_failed` (a flag that it needs is not on for the "
    "user), `rule_match` (the first rule that takes the user in), `no_rule_match` (none does), `default` (on, without "
    "rules)"
)

evaluate = extend_schema(
    operation_id="evaluate_flag",
    summary="Evaluate a flag",
    description=f"Whether the flag is on for a user, and why: {_REASONS}. A flag with variants answers the one that it "
    "serves, and its value, besides.",
    parameters=[_KEY, REVISION],
    request=EvaluationRequestSerializer,
    responses={
        200: answer(EVALUATION, "The evaluation.", _MATCH),
        **errors(ErrorCode.FLAG_NOT_FOUND, has_body=True),
    },
    examples=[OpenApiExample("A user", value=_USER, request_only=True)],
)

evaluate_all = extend_schema(
    operation_id="evaluate_flags",
    summary="Evaluate several flags",
    description="All flags that are not archived, or those named in `flags`, for one user under one configuration. "
    "Each answer is what evaluating that flag alone answers. A key that no flag has gets an error in its place, and "
    "does no harm to the others.",
    parameters=[REVISION],
    request=EvaluationsRequestSerializer,
    responses={
        200: answer(
            _EVALUATIONS,
            "The evaluations by key.",
            {
                "new-checkout": _MATCH,
                "button-colour": {"enabled": True, "reason": "default", "variant": "blue", "value": "#00f"},
                "no-such-flag": {"error": {"code": "flag_not_found", "message": "No flag has the key 'no-such-flag'."}},
            },
        ),
        **errors(has_body=True),
    },
    examples=[
        OpenApiExample("All flags", value=_USER, request_only=True),
        OpenApiExample("Two flags", value={**_USER, "flags": ["new-checkout", "button-colour"]}, request_only=True),
    ],
)

explain = extend_schema(
    operation_id="explain_flag",
    summary="Explain a flag",
    description="What the flag is for a user, now or at any other moment, with every test of every rule, what it was "
    "given and what it found. Nothing is recorded.",
    parameters=[_KEY, REVISION],
    request=ExplanationRequestSerializer,
    responses={
        200: answer(
            _EXPLANATION,
            "The explanation.",
            {
                "flag": "new-checkout",
                **_MATCH,
                "isEnabled": True,
                "prerequisites": [],
                "rules": [
                    {
                        "index": 0,
                        "type": "percentage",
                        "matches": True,
                        "isServed": True,
                        "steps": [
                            {
                                "test": "share",
                                "percentage": 25,
                                "threshold": 25_000,
                                "salt": "new-checkout",
                                "bucketed": "user-17",
                                "bucket": 11_874,
                                "passed": True,
                            }
                        ],
                        "serves": {"enabled": True},
                    }
                ],
                "environment": "production",
                "at": "2026-01-31T12:00:00.000000Z",
                "revision": 42,
            },
        ),
        **errors(ErrorCode.FLAG_NOT_FOUND, has_body=True),
    },
    examples=[
        OpenApiExample("Now", value=_USER, request_only=True),
        OpenApiExample("Then", value={**_USER, "at": "2026-01-31T12:00:00Z"}, request_only=True),
    ],
)
