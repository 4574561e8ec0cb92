"""The OpenAPI description: envelope, errors, headers and authentication as they are on the wire."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import django_filters
from django.conf import settings
from drf_spectacular.extensions import OpenApiSerializerFieldExtension
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiResponse, extend_schema_field
from rest_framework import serializers

from config.answers import KEY as KEY
from config.answers import MOMENT as MOMENT
from config.answers import NAME as NAME
from config.api.change_reason import REASON_LENGTH
from config.api.examples import add_examples
from config.api.filters import MomentFilter, SwitchFilter, TextFilter
from config.api.idempotency import KEY_LENGTH as IDEMPOTENCY_KEY_LENGTH
from config.api.idempotency import REPLAYED
from config.api.renderers import EnvelopeRenderer
from config.errors import DetailCode, ErrorCode
from config.slugs import KEY_RULE

Schema = dict[str, Any]

_components: dict[str, Schema] = {}


def closed_object(properties: Schema, description: str = "", *, optional: Sequence[str] = ()) -> Schema:
    """Return the schema of an object with these properties and no others. All but the optional ones
    are required.
    """
    return {
        "type": "object",
        **({"description": description} if description else {}),
        "properties": properties,
        "required": [name for name in properties if name not in optional],
        "additionalProperties": False,
    }


def component(name: str, schema: Schema) -> Schema:
    """Add a schema to the document under this name, and return the reference to it."""
    assert _components.setdefault(name, schema) == schema, name  # noqa: S101 (two schemas must not share a name)
    return {"$ref": f"#/components/schemas/{name}"}


TEXT: Schema = {"type": "string", "minLength": 1, "maxLength": 200}
_CURSOR: Schema = {"type": "string", "pattern": "^[A-Za-z0-9_-]+$"}

# --- parameters and headers ------------------------------------------------------------------------------------------


def key_in_path(name: str, of: str) -> OpenApiParameter:
    return OpenApiParameter(name, KEY, OpenApiParameter.PATH, description=f"The key of the {of}: {KEY_RULE}.")


def query(name: str, schema: Schema, description: str, *, required: bool = False) -> OpenApiParameter:
    """Return a parameter of the query string. Unknown and duplicate parameters are refused."""
    return OpenApiParameter(name, schema, OpenApiParameter.QUERY, description=description, required=required)


def parameters_of(filterset: type[django_filters.FilterSet]) -> list[OpenApiParameter]:
    """Return the parameters of the query string that filters take; the label of a filter is its description."""
    schemas: dict[type[Any], Schema] = {SwitchFilter: {"type": "boolean"}, TextFilter: TEXT, MomentFilter: MOMENT}
    parameters = []
    for name, parameter in filterset.base_filters.items():
        schema = dict(schemas[type(parameter)])
        if "max_length" in parameter.extra:
            schema["maxLength"] = parameter.extra["max_length"]
        parameters.append(query(name, schema, parameter.label))
    return parameters


def header(
    name: str, description: str, *, on: Sequence[int] = (), schema: Any = str, required: bool = True
) -> OpenApiParameter:
    """Return a header of all answers, or of those with these statuses."""
    return OpenApiParameter(
        name, schema, OpenApiParameter.HEADER, response=list(on) or True, description=description, required=required
    )


def paging(*, default: int | None = None, most: int = 1000) -> list[OpenApiParameter]:
    """Return the parameters of a list: `limit` and `cursor` in the query string, and `Link` in the
    answer.
    """
    limit: Schema = {"type": "integer", "minimum": 1, "maximum": most}
    without = "Without it, the answer holds all of them." if default is None else ""
    if default is not None:
        limit["default"] = default
    return [
        query("limit", limit, f"The maximum number of objects in a page. {without}".strip()),
        query(
            "cursor",
            _CURSOR,
            "The start of a page. It is part of the address in the `Link` header; do not make one up.",
        ),
        header(
            "Link",
            'The address of the next page, as `<...>; rel="next"`. The last page has none.',
            on=[200],
            required=False,
        ),
    ]


ETAG = header("ETag", "The version of the object, for `If-Match`.", on=[200, 201])
IF_NONE_MATCH = OpenApiParameter(
    "If-None-Match",
    str,
    OpenApiParameter.HEADER,
    description="The `ETag` that you read. If it is still current, the answer is 304.",
)
READ_ETAG = header("ETag", "The version of the object, for `If-None-Match` and `If-Match`.", on=[200, 304])
VARY = header("Vary", "The headers that name the caller and the environment.", on=[200, 304])
READING = [IF_NONE_MATCH, READ_ETAG, VARY]
"""The headers of a request for one resource and of its answer. The answers need `NOT_MODIFIED`,
too.
"""
NOT_MODIFIED = {304: OpenApiResponse(description="The version that `If-None-Match` names is still current.")}
_WITH_MORE = (
    ' It is `"<version>-<digest>"`. The digest covers the whole answer, including parts without a version; '
    "`If-Match` ignores it."
)
WHOLE_ETAG = header("ETag", f"The version of the object, for `If-Match`.{_WITH_MORE}", on=[200, 201])
READING_WHOLE = [
    IF_NONE_MATCH,
    header("ETag", f"The version of the object, for `If-None-Match` and `If-Match`.{_WITH_MORE}", on=[200, 304]),
    VARY,
]
"""The same for an answer with parts that change without the resource, such as results."""
LOCATION = header("Location", "The address of the new object.", on=[201])
IF_MATCH = OpenApiParameter(
    "If-Match",
    str,
    OpenApiParameter.HEADER,
    description="The `ETag` that you read. If there is a newer version, the answer is 412.",
)
REASON = OpenApiParameter(
    "X-Change-Reason",
    {"type": "string", "minLength": 1, "pattern": r"^[\t -~]*[!-~][\t -~]*$"},
    OpenApiParameter.HEADER,
    description=f"Why you make this change, for its history. At most {REASON_LENGTH:,} characters. "
    "Percent-encode characters other than ASCII, as UTF-8.",
)
IDEMPOTENCY = [
    OpenApiParameter(
        "Idempotency-Key",
        {"type": "string", "minLength": 1, "maxLength": IDEMPOTENCY_KEY_LENGTH, "pattern": "^[!-~]([ -~]*[!-~])?$"},
        OpenApiParameter.HEADER,
        description="A text of your choice that identifies this request. If the first request "
        "succeeded, sending it again with the same key and body within 24 hours changes nothing "
        "and returns the first answer. With another body, the answer is 409.",
    ),
    header(REPLAYED, "`true` if this is the answer of the first request.", on=[201, 202], required=False),
]
REVISION = header(
    "X-Revision",
    "A revision of the configuration. The answer includes all changes up to it.",
    on=[200],
    schema=int,
)
_ON_EVERY_ANSWER = [
    header(
        "X-Request-Id", "The id of this request: the `X-Request-Id` that was sent, if it is acceptable, else a new one."
    ),
    header(
        "Cache-Control",
        "`no-store`, or `private, no-cache` with an `ETag`: you may keep the answer, but check it before each use.",
    ),
    header("WWW-Authenticate", "`Bearer`.", on=[401]),
    header(
        "Retry-After", "The number of seconds to wait before sending the same request again.", on=[429, 503], schema=int
    ),
]

# --- answers ---------------------------------------------------------------------------------------------------------

_UUID = "01937a5e-9c1b-7d3a-8f00-4e1d2c3b4a59"

_DETAIL_PROPERTIES: Schema = {
    "field": {"type": "string", "description": "Such as `rules[0].percentage`; `body` for the body as a whole."},
    "code": {"type": "string", "enum": [code.value for code in DetailCode]},
    "message": {"type": "string", "description": "What is wrong, or what to do about it."},
}
_DETAIL = component(
    "ErrorDetail", closed_object(_DETAIL_PROPERTIES, "One invalid field, by the name that the caller used.")
)


def _error(codes: Sequence[ErrorCode]) -> Schema:
    properties: Schema = {
        "code": {
            "type": "string",
            "enum": [code.value for code in codes],
            "description": "For programs: the kind of the error.",
        },
        "message": {"type": "string", "description": "For people: what went wrong and what to do."},
        "requestId": {"type": "string", "description": "The same as the `X-Request-Id` header."},
    }
    if any(code.status == 400 or code in (ErrorCode.FLAG_NOT_FOUND, ErrorCode.IN_USE) for code in codes):
        properties["details"] = {"type": "array", "items": _DETAIL}
    return closed_object({"error": closed_object(properties, optional=["details"])}, _meanings(codes))


def _meanings(codes: Sequence[ErrorCode]) -> str:
    return " ".join(f"`{code.value}`: {code.meaning}" for code in codes)


component("AnyError", _error(list(ErrorCode)))

_ALWAYS = (
    ErrorCode.INVALID_PARAMETER,
    ErrorCode.UNAUTHENTICATED,
    ErrorCode.FORBIDDEN,
    ErrorCode.INTERNAL_ERROR,
    ErrorCode.UNAVAILABLE,
)
_WITH_BODY = (
    ErrorCode.VALIDATION_FAILED,
    ErrorCode.MALFORMED_JSON,
    ErrorCode.BODY_TOO_LARGE,
    ErrorCode.UNSUPPORTED_MEDIA_TYPE,
)


def errors(*codes: ErrorCode, has_body: bool = False) -> dict[int, OpenApiResponse]:
    """Return the failures of an operation by status: these, and those that every operation has."""
    by_status: dict[int, list[ErrorCode]] = defaultdict(list)
    for code in dict.fromkeys((*codes, *(_WITH_BODY if has_body else ()), *_ALWAYS)):
        by_status[code.status].append(code)
    if 404 in by_status and ErrorCode.NOT_FOUND not in by_status[404]:
        by_status[404].append(ErrorCode.NOT_FOUND)  # a key with a slash would be another path
    return {status: _failure(by_status[status]) for status in sorted(by_status)}


def _failure(codes: Sequence[ErrorCode]) -> OpenApiResponse:
    """Return an answer whose schema is a component with the name of its first code, or of all codes
    for a conflict.
    """
    # Codes of other statuses occur in the same combination everywhere.
    named = codes if codes[0].status == 409 else codes[:1]
    words = "_".join(code.value.removesuffix("_error") for code in named).split("_")
    name = "".join(word.capitalize() for word in words) + "Error"
    examples = [
        OpenApiExample(code.value, value={"error": {"code": code.value, "message": code.meaning, "requestId": _UUID}})
        for code in codes
    ]
    return OpenApiResponse(component(name, _error(codes)), _meanings(codes), examples)


def answer(serializer: Any, description: str, example: Any = None) -> OpenApiResponse:
    """Return the description of a success. It needs an example of its payload only if the tour
    prints none. The example has no envelope; for a list, it is one entry (see `config.api.examples`).
    """
    examples = [] if example is None else [OpenApiExample("Example", value=example)]
    return OpenApiResponse(serializer, description, examples)


@extend_schema_field({"type": "array", "items": _DETAIL})
class DetailsField(serializers.JSONField):
    """Return a list of invalid fields that are only a part of the request's."""


# --- the document ----------------------------------------------------------------------------------------------------

SECURITY_SCHEMES = {
    "bearerKey": {"type": "http", "scheme": "bearer", "description": "`Authorization: Bearer <key>`"},
    "headerKey": {"type": "apiKey", "in": "header", "name": "X-API-Key", "description": "`X-API-Key: <key>`"},
    "adminSession": {
        "type": "apiKey",
        "in": "cookie",
        "name": settings.SESSION_COOKIE_NAME,
        "description": "The session of a user who is signed in to the admin. Writes also require "
        "`X-CSRFToken`. `X-Environment` names the environment; without it, the default "
        "environment is used.",
    },
}


def complete_document(result: Schema, **_: Any) -> Schema:
    """Add the ways to authenticate and the shapes of failures, which no single operation declares
    (a hook).
    """
    result["components"]["securitySchemes"] = SECURITY_SCHEMES
    schemas = {**result["components"].get("schemas", {}), **_components}
    result["components"]["schemas"] = dict(sorted(schemas.items()))
    add_examples(result["paths"])
    return result


class EnvelopeSchema(AutoSchema):
    """Put payloads under `data` if the view does so. Answers and requests have no properties that
    are not declared.
    """

    def get_override_parameters(self) -> list[Any]:
        return [*super().get_override_parameters(), *_ON_EVERY_ANSWER]

    def get_auth(self) -> list[dict[str, list[str]]]:
        """One of these is enough. If ANONYMOUS_SCOPE is set, callers on the machine itself need
        none.
        """
        return [{scheme: []} for scheme in SECURITY_SCHEMES]

    def _get_request_for_media_type(self, serializer: Any, direction: Any = "request") -> Any:
        schema, _ = super()._get_request_for_media_type(serializer, direction)
        return schema, not getattr(serializer, "is_optional", False)

    def _get_response_for_code(
        self, serializer: Any, status_code: Any, media_types: Any = None, direction: Any = "response"
    ) -> Any:
        response = super()._get_response_for_code(serializer, status_code, media_types, direction)
        if str(status_code).startswith("2") and self._has_envelope():
            for kind, content in response.get("content", {}).items():
                if kind != EnvelopeRenderer.media_type:
                    continue  # a file
                content["schema"] = closed_object({"data": content["schema"]})
                for example in content.get("examples", {}).values():
                    example["value"] = {"data": example["value"]}
        return response

    def _has_envelope(self) -> bool:
        return any(isinstance(renderer, EnvelopeRenderer) for renderer in self.view.get_renderers())

    def _map_basic_serializer(self, serializer: Any, direction: Any) -> Any:
        schema = super()._map_basic_serializer(serializer, direction)
        schema["additionalProperties"] = False
        if serializer.partial:
            schema.pop("required", None)
        if direction == "response":
            sometimes = getattr(serializer, "left_out_while_empty", ())
            schema["required"] = [name for name in schema["properties"] if name not in sometimes]
        return schema

    def _postprocess_serializer_schema(self, schema: Any, serializer: Any, direction: Any) -> Any:
        if direction == "request" and serializer.partial:
            return schema  # callers may send back what they read, including read-only properties
        return super()._postprocess_serializer_schema(schema, serializer, direction)

    def _map_serializer_field(self, field: Any, direction: Any, bypass_extensions: bool = False) -> Any:
        schema = super()._map_serializer_field(field, direction, bypass_extensions)
        if schema:
            schema.pop("x-spec-enum-id", None)  # only used by a hook that is not installed
            if direction == "response" and _is_left_out_while_empty(field):
                schema |= {"enum": [each for each in schema["enum"] if each is not None]} if "enum" in schema else {}
        return schema

    def _insert_field_validators(self, field: Any, schema: Any) -> None:
        """Allow an empty text in the pattern, because a `oneOf` with two kinds of text makes
        generated clients find two matches.
        """
        super()._insert_field_validators(field, schema)
        if getattr(field, "allow_blank", False) and "oneOf" in schema:
            text, _empty = schema.pop("oneOf")
            schema.update({**text, "pattern": f"{text['pattern']}|^$"})

    def _get_serializer_field_meta(self, field: Any, direction: Any) -> Any:
        meta = super()._get_serializer_field_meta(field, direction)
        if direction == "response" and _is_left_out_while_empty(field):
            meta.pop("nullable", None)  # null removes a property, and answers have no null
        return meta

    def get_serializer_name(self, serializer: Any, direction: Any) -> str:
        """Names of request components get the suffix `Request` anyway."""
        return str(super().get_serializer_name(serializer, direction)).replace("RequestSerializer", "Serializer")

    def _is_list_view(self, serializer: Any = None) -> bool:
        return isinstance(serializer, serializers.ListSerializer)

    def _get_paginator(self) -> None:
        return None  # DRF's paginators change the body; ours does not


def _is_left_out_while_empty(field: Any) -> bool:
    return field.field_name in getattr(field.parent, "left_out_while_empty", ())


class KeyExtension(OpenApiSerializerFieldExtension):
    target_class = "config.api.serializers.KeyField"

    def map_serializer_field(self, auto_schema: AutoSchema, direction: Any) -> Schema:
        return dict(KEY)


class TimestampExtension(OpenApiSerializerFieldExtension):
    """In requests, a timestamp may be a date."""

    target_class = "config.api.serializers.TimestampField"

    def map_serializer_field(self, auto_schema: AutoSchema, direction: Any) -> Schema:
        is_read = direction == "request" and not self.target.read_only
        return deepcopy(MOMENT) if is_read else {"type": "string", "format": "date-time"}


class RawExtension(OpenApiSerializerFieldExtension):
    target_class = "config.api.serializers.RawField"

    def map_serializer_field(self, auto_schema: AutoSchema, direction: Any) -> Schema:
        return deepcopy(self.target.schema)
