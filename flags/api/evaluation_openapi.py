"""How the OpenAPI document describes the operations that evaluate and explain flags."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema

from config.api.schema import REVISION, Schema, answer, component, errors, key_in_path
from config.api.structs import schema_of
from config.errors import ErrorCode
from flags.api.evaluation_serializers import (
    EvaluationRequestSerializer,
    EvaluationsRequestSerializer,
    Explanation,
    ExplanationRequestSerializer,
    UnknownFlag,
)
from flags.engine.trace import Evaluation

_KEY = key_in_path("flag_key", "flag")
_EVALUATION = schema_of(Evaluation)
_EVALUATIONS: Schema = component(
    "EvaluationsByKey",
    {
        "type": "object",
        "description": "The evaluation of each flag by its key, or the error that no flag has this key.",
        "additionalProperties": {"anyOf": [_EVALUATION, schema_of(UnknownFlag)]},
    },
)

# --- operations ------------------------------------------------------------------------------------------------------

evaluate = extend_schema(
    operation_id="evaluate_flag",
    summary="Evaluate a flag",
    description="Returns whether the flag is on for a user, and why. A flag with variants also has the variant that it "
    "serves, and its value. If an experiment drives the flag, the user's variant in the experiment decides, and the "
    "user keeps the variant seen first. The exposure is recorded before the answer.",
    parameters=[_KEY, REVISION],
    request=EvaluationRequestSerializer,
    responses={
        200: answer(_EVALUATION, "The evaluation."),
        **errors(ErrorCode.FLAG_NOT_FOUND, has_body=True),
    },
)

evaluate_all = extend_schema(
    operation_id="evaluate_flags",
    summary="Evaluate several flags",
    description="Returns all flags that are not archived, or those named in `flags`, for one user and one revision of "
    "the configuration. Each evaluation is the same as that of the flag alone, but exposures to experiments are not "
    "recorded. A key that no flag has gets an error as its entry; the other flags are evaluated.",
    parameters=[REVISION],
    request=EvaluationsRequestSerializer,
    responses={
        200: answer(
            _EVALUATIONS,
            "The evaluations by key.",
        ),
        **errors(has_body=True),
    },
)

explain = extend_schema(
    operation_id="explain_flag",
    summary="Explain a flag",
    description="Returns what the flag is for a user, now or at any other moment, with each test of each rule: the "
    "data that it compared and its outcome. Nothing is recorded. A user who is in an experiment now is treated as if "
    "they had always been in it.",
    parameters=[_KEY, REVISION],
    request=ExplanationRequestSerializer,
    responses={
        200: answer(
            schema_of(Explanation),
            "The explanation.",
        ),
        **errors(ErrorCode.FLAG_NOT_FOUND, has_body=True),
    },
)
