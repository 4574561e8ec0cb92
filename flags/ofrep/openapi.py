"""How the OpenAPI document describes the operations of OFREP: version 0.3 of the protocol, as far as it is served."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiResponse, extend_schema

from config.api.schema import KEY, Schema, answer, closed_object, component, header
from config.slugs import NAME_LENGTH
from flags.engine.types import Reason
from flags.ofrep.answers import FailureCode, ReasonCode, tell_failure, tell_missing_key

_TEXT: Schema = {"type": "string"}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_ENVIRONMENT: Schema = {**KEY, "description": "The environment."}
_REVISION: Schema = {**_COUNT, "description": "Of the newest change of anything that was evaluated."}
_KEY: Schema = {**_TEXT, "minLength": 1}

# --- what is sent ----------------------------------------------------------------------------------------------------

_TARGETING_KEY: Schema = {
    "type": ["string", "null"],
    "maxLength": NAME_LENGTH,
    "description": "The user id. Without one, a flag that is for a share of the users fails.",
}
_CONTEXT: Schema = {
    "type": "object",
    "description": "The user: a `targetingKey`, and what rules may ask about. When all flags are evaluated, a list of "
    "keys in `flags` narrows them down.",
    "properties": {"targetingKey": _TARGETING_KEY},
    "additionalProperties": True,
}
_REQUEST = component(
    "OfrepRequest",
    {
        "type": "object",
        "description": "Whom to evaluate flags for. What else it has is ignored.",
        "properties": {"context": component("OfrepContext", _CONTEXT)},
        "additionalProperties": True,
    },
)
_USER = {"context": {"targetingKey": "user-17", "plan": "pro"}}
_FLAG_KEY = OpenApiParameter("flag_key", _KEY, OpenApiParameter.PATH, description="The key of the flag.")
_IF_NONE_MATCH = OpenApiParameter(
    "If-None-Match", str, OpenApiParameter.HEADER, description="The `ETag` of the last answer; 304 if it still holds."
)
_HEARD = [
    OpenApiParameter(
        "flagConfigEtag",
        _TEXT,
        OpenApiParameter.QUERY,
        description="The `etag` that an event stream told of: the answer is at least as new. Any other is ignored.",
    ),
    OpenApiParameter(
        "flagConfigLastModified",
        _TEXT,
        OpenApiParameter.QUERY,
        description="The `lastModified` that came with it; ignored.",
    ),
]

# --- what is answered ------------------------------------------------------------------------------------------------

_FACTS: Schema = {
    "flagSetId": _ENVIRONMENT,
    "revision": _REVISION,
    "reason": {
        "type": "string",
        "enum": [reason.value for reason in Reason],
        "description": "The same in Halyard's own words.",
    },
    "rule": {**_COUNT, "description": "The rule that took the user in; not told to keys of scope `client`."},
    "ruleName": {**_TEXT, "description": "What people call it; not told to keys of scope `client` either."},
}
_METADATA = closed_object(_FACTS, "About the evaluation.", optional=("revision", "rule", "ruleName"))
_EVALUATION = component(
    "OfrepEvaluation",
    closed_object(
        {
            "key": _KEY,
            "reason": {"type": "string", "enum": [reason.value for reason in ReasonCode]},
            "value": {"description": "Its value; of a flag without variants, whether it is on."},
            "variant": {**KEY, "description": "The variant; of a flag without variants, `on` or `off`."},
            "metadata": _METADATA,
        },
        "What a flag is for the user, and why.",
    ),
)
_NO_METADATA = component("OfrepNoMetadata", closed_object({}, "Of a failure: always empty."))
_DETAILS: Schema = {**_TEXT, "description": "For people: what went wrong and what to do."}


def _failure(codes: Sequence[FailureCode], *, of_a_flag: bool = False) -> Schema:
    failure = {"errorCode": {"type": "string", "enum": [code.value for code in codes]}, "errorDetails": _DETAILS}
    if not of_a_flag:
        return closed_object(failure)
    return closed_object({"key": _KEY, **failure, "metadata": _NO_METADATA})


_MALFORMED = (FailureCode.PARSE_ERROR, FailureCode.INVALID_CONTEXT, FailureCode.GENERAL)
_REFUSED = component("OfrepRefusal", closed_object({"errorDetails": _DETAILS}))
_MISSING = component("OfrepFlagFailure", _failure([FailureCode.TARGETING_KEY_MISSING], of_a_flag=True))
_EVENT_STREAM = component(
    "OfrepEventStream",
    closed_object(
        {
            "type": {"type": "string", "enum": ["sse"]},
            "url": {**_TEXT, "format": "uri", "description": "Good for an hour. It carries a token: do not log it."},
            "inactivityDelaySec": {**_COUNT, "description": "How long an unseen page is to stay connected."},
        },
        "Where to hear of changes as they are made (Server-Sent Events).",
    ),
)
_SET = closed_object({"flagSetId": _ENVIRONMENT, "revision": _REVISION}, "About all of them.")
_EVALUATIONS = component(
    "OfrepEvaluations",
    closed_object(
        {
            "flags": {"type": "array", "items": {"anyOf": [_EVALUATION, _MISSING]}},
            "metadata": _SET,
            "eventStreams": {"type": "array", "items": _EVENT_STREAM},
        },
        "What each flag is for the user.",
        optional=["eventStreams"],
    ),
)


def _example(schema: Any, description: str, *examples: Any) -> OpenApiResponse:
    named = [OpenApiExample(each.get("errorCode", "Refusal"), value=each) for each in examples]
    return OpenApiResponse(schema, description, named)


def _failures(*codes: FailureCode, of_a_flag: bool) -> dict[int, OpenApiResponse]:
    """The failures that both operations have; that of one flag names it."""
    key = {"key": "new-checkout"} if of_a_flag else {}
    metadata: Schema = {"metadata": {}} if of_a_flag else {}
    name = "OfrepEvaluationFailure" if of_a_flag else "OfrepBulkFailure"
    general = _failure([FailureCode.GENERAL], of_a_flag=of_a_flag)
    return {
        400: _example(
            component(name, _failure([*_MALFORMED, *codes], of_a_flag=of_a_flag)),
            "The body is no JSON, the context is not acceptable, or something else of the request is not.",
            {**key, "errorCode": "INVALID_CONTEXT", "errorDetails": "context: Must be an object.", **metadata},
        ),
        401: _example(_REFUSED, "No API key was sent, or it is not good.", {"errorDetails": "Send an API key."}),
        403: _example(_REFUSED, "The caller may not do this.", {"errorDetails": "You may not do this."}),
        500: _example(
            component(name.replace("Failure", "Defect"), {"anyOf": [general, _REFUSED]}),
            "A defect of the service; its log has the request id.",
            {**key, "errorCode": "GENERAL", "errorDetails": "The service failed; this is a defect.", **metadata},
        ),
        503: _example(_REFUSED, "The database cannot answer now.", {"errorDetails": "Send the same request again."}),
    }


_NOT_FOUND = component(
    "OfrepNotFound",
    {"anyOf": [component("OfrepFlagNotFound", _failure([FailureCode.FLAG_NOT_FOUND], of_a_flag=True)), _REFUSED]},
)
_ABOUT = {"flagSetId": "production", "reason": "rule_match", "rule": 0}
_FOUND = {
    "key": "button-colour",
    "reason": "TARGETING_MATCH",
    "value": "#00f",
    "variant": "blue",
    "metadata": _ABOUT,
}
_UNKNOWN = tell_failure("no-such-flag", FailureCode.FLAG_NOT_FOUND, "No flag has the key 'no-such-flag'.")
_OTHER = tell_missing_key("half")
_STREAM = {
    "type": "sse",
    "url": "http://127.0.0.1:8001/ofrep/v1/streams/production?token=eyJ0b2tlbiI6MX0",
    "inactivityDelaySec": 120,
}

evaluate = extend_schema(
    operation_id="ofrep_evaluate_flag",
    summary="Evaluate a flag by OFREP",
    description="For OpenFeature's clients on servers: what a flag is for the user of each request. `reason` is one of "
    "OpenFeature's; the one in `metadata` is Halyard's own. Where an experiment drives the flag, that the user was "
    "exposed is recorded before the answer.",
    parameters=[_FLAG_KEY],
    request={"application/json": _REQUEST},
    responses={
        200: answer(_EVALUATION, "The evaluation.", {**_FOUND, "metadata": {**_ABOUT, "revision": 51}}),
        404: _example(_NOT_FOUND, "No flag has this key.", _UNKNOWN),
        **_failures(FailureCode.TARGETING_KEY_MISSING, of_a_flag=True),
    },
    examples=[OpenApiExample("A user", value=_USER, request_only=True)],
)

evaluate_all = extend_schema(
    operation_id="ofrep_evaluate_flags",
    summary="Evaluate all flags by OFREP",
    description="For OpenFeature's clients in browsers and apps: what all flags that are not archived are for one "
    "user. A flag that needs a targeting key fails alone where the context has none. `eventStreams` is left out where "
    "no stream can be reached. Exposures to experiments are not recorded.",
    parameters=[
        *_HEARD,
        _IF_NONE_MATCH,
        header("ETag", "The version that was answered, for `If-None-Match`.", on=[200, 304]),
    ],
    request={"application/json": _REQUEST},
    responses={
        200: answer(
            _EVALUATIONS,
            "The evaluations.",
            {
                "flags": [_FOUND, _OTHER],
                "metadata": {"flagSetId": "production", "revision": 51},
                "eventStreams": [_STREAM],
            },
        ),
        304: OpenApiResponse(None, "The answer that `If-None-Match` names still holds."),
        **_failures(of_a_flag=False),
    },
    examples=[
        OpenApiExample("All flags", value=_USER, request_only=True),
        OpenApiExample(
            "One flag", value={"context": {**_USER["context"], "flags": ["button-colour"]}}, request_only=True
        ),
    ],
)
