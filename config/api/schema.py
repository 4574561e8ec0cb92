"""The OpenAPI description: envelope, errors, headers and authentication as they are on the wire."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from typing import Any, TypeVar

from django.conf import settings
from drf_spectacular.extensions import OpenApiSerializerFieldExtension
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import OpenApiExample, OpenApiResponse, extend_schema, extend_schema_field
from rest_framework import serializers

from config.answers import KEY as KEY
from config.answers import MOMENT as MOMENT
from config.answers import NAME as NAME
from config.api.document import add_examples, introduce
from config.api.parameters import Schema as Schema
from config.api.parameters import is_idempotent, is_versioned_read, parameters_for, takes_if_match, variables_of
from config.api.renderers import EnvelopeRenderer
from config.errors import DetailCode, ErrorCode

Handler = TypeVar("Handler", bound=Callable[..., Any])

_components: dict[str, Schema] = {}


def closed_object(properties: Schema, description: str = "", *, optional: Sequence[str] = ()) -> Schema:
    """Return the schema of an object with these properties only. All but the optional ones are required."""
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


_NOT_MODIFIED = OpenApiResponse(description="The version that `If-None-Match` names is still current.")

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
    ErrorCode.RATE_LIMITED,
    ErrorCode.UNAVAILABLE,
)
_WITH_BODY = (
    ErrorCode.VALIDATION_FAILED,
    ErrorCode.MALFORMED_JSON,
    ErrorCode.BODY_TOO_LARGE,
    ErrorCode.UNSUPPORTED_MEDIA_TYPE,
)


_NOT_FOUND = {"flag_key": ErrorCode.FLAG_NOT_FOUND, "experiment_key": ErrorCode.EXPERIMENT_NOT_FOUND}
"""The codes of missing objects, by the variable of the path, in addition to NOT_FOUND."""


def _failures(view: Any, path: str, method: str) -> dict[int, OpenApiResponse]:
    """Return the failures of an operation by status: its own, those that follow from the view, and those of all."""
    by_status: dict[int, list[ErrorCode]] = defaultdict(list)
    for code in (*getattr(view, view.action).errors, *_derived_codes(view, path, method), *_ALWAYS):
        by_status[code.status].append(code)
    return {status: _failure(codes) for status, codes in by_status.items()}


def _derived_codes(view: Any, path: str, method: str) -> Iterator[ErrorCode]:
    for variable in variables_of(path):
        if variable in _NOT_FOUND:
            yield _NOT_FOUND[variable]
        yield ErrorCode.NOT_FOUND  # also for a key with a slash, which would be another path
    if is_idempotent(view):
        yield ErrorCode.IDEMPOTENCY_CONFLICT
    if takes_if_match(view, path):
        yield ErrorCode.PRECONDITION_FAILED
    if method in ("POST", "PATCH"):
        yield from _WITH_BODY


def _failure(codes: Sequence[ErrorCode]) -> OpenApiResponse:
    """Return an answer whose component has the name of its first code, or of all codes for a conflict."""
    # Codes of other statuses occur in the same combination everywhere.
    named = codes if codes[0].status == 409 else codes[:1]
    words = "_".join(code.value.removesuffix("_error") for code in named).split("_")
    name = "".join(word.capitalize() for word in words) + "Error"
    examples = [
        OpenApiExample(code.value, value={"error": {"code": code.value, "message": code.meaning, "requestId": _UUID}})
        for code in codes
    ]
    return OpenApiResponse(component(name, _error(codes)), _meanings(codes), examples)


def operation(
    operation_id: str, summary: str, *, errors: Sequence[ErrorCode] = (), **described: Any
) -> Callable[[Handler], Handler]:
    """Describe an operation with the arguments of `extend_schema`, and the errors of its own.

    `EnvelopeSchema` adds the parameters, headers, answers and errors that follow from the view: from its `access`,
    `etag_of`, `keeps_history`, pagination and filters, from `idempotent`, and from the variables of the path.
    """

    def describe(handler: Handler) -> Handler:
        handler.errors = errors  # type: ignore[attr-defined]
        return named(operation_id, summary=summary, **described)(handler)

    return describe


def named(operation_id: str, **described: Any) -> Callable[[Handler], Handler]:
    """Describe an operation as `extend_schema` does, and let metrics call it by its id."""

    def describe(handler: Handler) -> Handler:
        decorated: Handler = extend_schema(operation_id=operation_id, **described)(handler)
        decorated.operation_id = operation_id  # type: ignore[attr-defined]
        return decorated

    return describe


def answer(serializer: Any, description: str, example: Any = None) -> OpenApiResponse:
    """Return the description of a success. It needs an example only if the guide's tour prints none.

    The example has no envelope. For a list, it is one entry.
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
    "killSwitchToken": {
        "type": "http",
        "scheme": "bearer",
        "description": "`Authorization: Bearer <token>` with the token of a kill switch.",
    },
}
CALLERS = ("bearerKey", "headerKey", "adminSession")
"""The ways to authenticate for all operations but those with credentials of their own."""


def complete_document(result: Schema, **_: Any) -> Schema:
    """Add what no operation declares: the introduction, the ways to authenticate, and the shapes of failures.

    This is a hook of drf-spectacular.
    """
    result["components"]["securitySchemes"] = SECURITY_SCHEMES
    schemas = {**result["components"].get("schemas", {}), **_components}
    result["components"]["schemas"] = dict(sorted(schemas.items()))
    add_examples(result["paths"])
    introduce(result)
    return result


class EnvelopeSchema(AutoSchema):
    """Puts payloads under `data` if the view does so. Objects have no properties that are not declared."""

    def get_override_parameters(self) -> list[Any]:
        return [*super().get_override_parameters(), *parameters_for(self.view, self.path)]

    def _get_response_bodies(self, direction: Any = "response") -> Any:
        bodies = super()._get_response_bodies(direction)
        if self._has_envelope():
            others = _failures(self.view, self.path, self.method)
            if is_versioned_read(self.view):
                others[304] = _NOT_MODIFIED
            for status, response in others.items():
                bodies[str(status)] = self._get_response_for_code(response, str(status), direction=direction)
        return bodies

    def get_auth(self) -> list[dict[str, list[str]]]:
        """Return alternatives. With ANONYMOUS_SCOPE, callers on the machine itself need none of them."""
        own: str = getattr(self.view, "own_credentials", "")
        if own:
            return [{own: []}]
        return [{scheme: []} for scheme in CALLERS]

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
                schema |= {"enum": [value for value in schema["enum"] if value is not None]} if "enum" in schema else {}
        return schema

    def _insert_field_validators(self, field: Any, schema: Any) -> None:
        """Allow an empty string in the pattern. In a `oneOf` of two strings, generated clients find two matches."""
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
    match_subclasses = True

    def map_serializer_field(self, auto_schema: AutoSchema, direction: Any) -> Schema:
        return deepcopy(self.target.schema)
