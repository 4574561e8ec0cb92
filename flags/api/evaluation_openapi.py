"""How the OpenAPI document describes the operations that evaluate. `explanation_schema` has what they answer."""

from __future__ import annotations

from drf_spectacular.utils import OpenApiExample, extend_schema

from config.api.schema import REVISION, Schema, answer, closed_object, component, errors, key_in_path
from config.errors import ErrorCode
from flags.api.evaluation_serializers import (
    EvaluationRequestSerializer,
    EvaluationsRequestSerializer,
    ExplanationRequestSerializer,
)
from flags.api.explanation_schema import ANSWER, EXPLANATION, SERVED

_KEY = key_in_path("flag_key", "flag")
EVALUATION = component("Evaluation", closed_object(ANSWER, "What a flag is for a user, and why.", optional=SERVED))

_UNKNOWN = closed_object(
    {"code": {"type": "string", "enum": [ErrorCode.FLAG_NOT_FOUND.value]}, "message": {"type": "string"}}
)
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
    "serves, and its value, besides. Where an experiment drives the flag, it is on as the user's variant says, which "
    "stays the one first shown; that the user was exposed is recorded before the answer.",
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
    "Each answer is what evaluating that flag alone answers, but exposures to experiments are not recorded. A key that "
    "no flag has gets an error in its place, and does no harm to the others.",
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
    "given and what it found. Nothing is recorded. Who is in an experiment by now is taken to have always been in it.",
    parameters=[_KEY, REVISION],
    request=ExplanationRequestSerializer,
    responses={
        200: answer(
            EXPLANATION,
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
