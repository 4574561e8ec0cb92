"""OFREP 0.3 in the OpenAPI document, as far as the service implements it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiResponse

from config.answers import reference
from config.api.parameters import header
from config.api.schema import Schema, answer, closed_object, component, named
from config.api.structs import schema_of
from config.slugs import NAME_LENGTH
from flags.ofrep.answers import (
    FailureCode,
    OfrepEvaluation,
    OfrepEvaluations,
    OfrepFlagFailure,
    OfrepRefusal,
    answer_failure,
)

# --- requests --------------------------------------------------------------------------------------------------------

_TARGETING_KEY: Schema = {
    "type": ["string", "null"],
    "maxLength": NAME_LENGTH,
    "description": "The user id. Without one, flags that are on for a share of the users fail.",
}
_CONTEXT: Schema = {
    "type": "object",
    "description": "The user: a `targetingKey`, and the attributes that conditions read. In a request for all flags, a "
    "list of keys in `flags` restricts the answer to these flags.",
    "properties": {"targetingKey": _TARGETING_KEY},
    "additionalProperties": True,
}
_REQUEST = component(
    "OfrepRequest",
    {
        "type": "object",
        "description": "The user to evaluate flags for. Other properties are ignored.",
        "properties": {"context": component("OfrepContext", _CONTEXT)},
        "additionalProperties": True,
    },
)


def _parameter(name: str, location: Literal["query", "header"], description: str) -> OpenApiParameter:
    return OpenApiParameter(name, {"type": "string"}, location, description=description)


_FLAG_KEY = OpenApiParameter(
    "flag_key", {"type": "string", "minLength": 1}, OpenApiParameter.PATH, description="The key of the flag."
)
_CLIENT_STATE = [
    _parameter(
        "flagConfigEtag",
        "query",
        "The `etag` of a message from an event stream. The answer is at least as new as this "
        "message. Any other value is ignored.",
    ),
    _parameter(
        "flagConfigLastModified", "query", "The `lastModified` of a message from an event stream. It is ignored."
    ),
    _parameter("If-None-Match", "header", "The `ETag` of the last answer. If it is still current, the answer is 304."),
    header("ETag", "The version of the answer, for `If-None-Match`.", on=[200, 304]),
]

# --- failures --------------------------------------------------------------------------------------------------------

_REFUSAL = schema_of(OfrepRefusal)
schema_of(OfrepFlagFailure)  # which the evaluations refer to
_MALFORMED = (FailureCode.PARSE_ERROR, FailureCode.INVALID_CONTEXT, FailureCode.GENERAL)


def _failure(codes: Sequence[FailureCode], *, of_a_flag: bool) -> Schema:
    """Return the schema of a failure with one of these codes."""
    failure: Schema = {
        "errorCode": {"type": "string", "enum": [code.value for code in codes], "description": "Switch on this."},
        "errorDetails": {"type": "string", "description": "For people: what went wrong and what to do."},
    }
    if not of_a_flag:
        return closed_object(failure)
    key: Schema = {"key": {"type": "string", "minLength": 1, "description": "The key of the flag."}}
    return closed_object({**key, **failure, "metadata": {**reference("OfrepNoMetadata"), "description": "Empty."}})


def _example(schema: Any, description: str, example: dict[str, Any]) -> OpenApiResponse:
    return OpenApiResponse(schema, description, [OpenApiExample(example.get("errorCode", "Refusal"), value=example)])


def _failures(*codes: FailureCode, of_a_flag: bool) -> dict[int, OpenApiResponse]:
    """Return the failures of an operation by status. Failures of a single flag name it."""

    def example(code: str, details: str) -> dict[str, Any]:
        of_flag = {"key": "new-checkout", "metadata": {}} if of_a_flag else {}
        return {**of_flag, "errorCode": code, "errorDetails": details}

    name = "OfrepEvaluation" if of_a_flag else "OfrepBulk"
    malformed = component(f"{name}Failure", _failure([*_MALFORMED, *codes], of_a_flag=of_a_flag))
    general = _failure([FailureCode.GENERAL], of_a_flag=of_a_flag)
    return {
        400: _example(
            malformed,
            "The body is not JSON, or the context or another part of the request is not valid.",
            example("INVALID_CONTEXT", "context: Must be an object."),
        ),
        401: _example(_REFUSAL, "There is no API key, or it is not valid.", {"errorDetails": "Send an API key."}),
        403: _example(
            _REFUSAL, "The caller lacks the permission.", {"errorDetails": "You are not allowed to do this."}
        ),
        500: _example(
            component(f"{name}Defect", {"anyOf": [general, _REFUSAL]}),
            "A defect of the service; its log has the request id.",
            example("GENERAL", "The service failed; this is a defect."),
        ),
        503: _example(_REFUSAL, "The database is not available now.", {"errorDetails": "Send the same request again."}),
    }


_FLAG_NOT_FOUND = component("OfrepFlagNotFound", _failure([FailureCode.FLAG_NOT_FOUND], of_a_flag=True))
_NOT_FOUND = component("OfrepNotFound", {"anyOf": [_FLAG_NOT_FOUND, _REFUSAL]})

# --- operations ------------------------------------------------------------------------------------------------------


evaluate = named(
    "ofrep_evaluate_flag",
    summary="Evaluate a flag by OFREP",
    description="Evaluates one flag for one user, for OpenFeature's clients on servers. `reason` "
    "is one of OpenFeature's reasons; `metadata` has Halyard's own. If an experiment drives the "
    "flag, the exposure is recorded before the answer.",
    parameters=[_FLAG_KEY],
    request={"application/json": _REQUEST},
    responses={
        200: answer(schema_of(OfrepEvaluation), "The evaluation."),
        404: _example(
            _NOT_FOUND,
            "No flag has this key.",
            answer_failure("no-such-flag", FailureCode.FLAG_NOT_FOUND, "No flag has the key 'no-such-flag'.").as_json(),
        ),
        **_failures(FailureCode.TARGETING_KEY_MISSING, of_a_flag=True),
    },
)

evaluate_all = named(
    "ofrep_evaluate_flags",
    summary="Evaluate all flags by OFREP",
    description="Evaluates all flags that are not archived for one user, for OpenFeature's "
    "clients in browsers and apps. If the context has no targeting key, only the flags that need "
    "one fail. Exposures to experiments are not recorded.",
    parameters=_CLIENT_STATE,
    request={"application/json": _REQUEST},
    responses={
        200: answer(schema_of(OfrepEvaluations), "The evaluations."),
        304: OpenApiResponse(None, "The answer that `If-None-Match` names is still current."),
        **_failures(of_a_flag=False),
    },
)
