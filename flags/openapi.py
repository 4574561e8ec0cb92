"""How the OpenAPI document describes the operations of /v1/flags."""

from __future__ import annotations

from drf_spectacular.utils import OpenApiExample, extend_schema

from config.api.schema import ETAG, IF_MATCH, LOCATION, REASON, TEXT, answer, errors, key_in_path, paging, query
from config.errors import ErrorCode
from flags.serializers import (
    EvaluationRequestSerializer,
    EvaluationSerializer,
    FlagEntrySerializer,
    FlagSerializer,
    FlagUpdateSerializer,
)

_KEY = key_in_path("flag_key", "flag")
_RULES = [{"type": "percentage", "percentage": 25}]
_ENTRY = {
    "id": "01937a5e-9c1b-7d3a-8f00-4e1d2c3b4a59",
    "key": "new-checkout",
    "description": "The one-page checkout",
    "enabled": True,
    "createdAt": "2026-01-31T12:00:00.000000Z",
}
_FLAG = {**_ENTRY, "rules": _RULES, "updatedAt": "2026-01-31T12:00:00.000000Z"}

list_flags = extend_schema(
    operation_id="list_flags",
    summary="List flags",
    description="All flags, ordered by key, as they stand in the environment of the request. "
    "Without `limit` all of them are answered; with it, the `Link` header names the next page.",
    parameters=[
        query("enabled", {"type": "boolean"}, "Only flags that are on, or off, in this environment."),
        query("search", TEXT, "Part of the key or the description, in any case."),
        *paging(),
    ],
    responses={200: answer(FlagEntrySerializer(many=True), "The flags, without their rules.", _ENTRY), **errors()},
)

retrieve = extend_schema(
    operation_id="get_flag",
    summary="Get a flag",
    description="The flag with its rules. Send its `ETag` back as `If-Match` to change only what you have seen.",
    parameters=[_KEY, ETAG],
    responses={200: answer(FlagSerializer, "The flag.", _FLAG), **errors(ErrorCode.FLAG_NOT_FOUND)},
)

create = extend_schema(
    operation_id="create_flag",
    summary="Create a flag",
    description="`key` is required. The flag is as given in the environment of the request; in all others it starts "
    "off, with the same rules.",
    parameters=[REASON, LOCATION, ETAG],
    request=FlagSerializer,
    responses={
        201: answer(FlagSerializer, "The flag as it was created.", _FLAG),
        **errors(ErrorCode.ALREADY_EXISTS, has_body=True),
    },
    examples=[
        OpenApiExample(
            "A quarter of all users",
            value={"key": "new-checkout", "description": "The one-page checkout", "enabled": True, "rules": _RULES},
            request_only=True,
        )
    ],
)

partial_update = extend_schema(
    operation_id="update_flag",
    summary="Update a flag",
    description="What is sent replaces, what is not sent stays; `rules` is replaced whole. `enabled` and `rules` are "
    "those of the environment of the request. What was read may be edited and sent back: properties that cannot "
    "be changed are accepted as they were read.",
    parameters=[_KEY, IF_MATCH, REASON, ETAG],
    request=FlagUpdateSerializer,
    responses={
        200: answer(FlagSerializer, "The flag as it is now.", _FLAG),
        **errors(ErrorCode.FLAG_NOT_FOUND, ErrorCode.PRECONDITION_FAILED, has_body=True),
    },
    examples=[OpenApiExample("Switch it off", value={"enabled": False}, request_only=True)],
)

destroy = extend_schema(
    operation_id="delete_flag",
    summary="Delete a flag",
    description="Deletes it from every environment, unless it is on in another one. Its history stays.",
    parameters=[_KEY, IF_MATCH, REASON],
    request=None,
    responses={
        204: None,
        **errors(ErrorCode.FLAG_NOT_FOUND, ErrorCode.ENABLED_ELSEWHERE, ErrorCode.PRECONDITION_FAILED),
    },
)

evaluate = extend_schema(
    operation_id="evaluate_flag",
    summary="Evaluate a flag",
    description="Whether the flag is on for a user, and why: `disabled` (off in this environment), `rule_match` (the "
    "first rule that takes the user in), `no_rule_match` (none does), `default` (on, without rules).",
    parameters=[_KEY],
    request=EvaluationRequestSerializer,
    responses={
        200: answer(EvaluationSerializer, "The evaluation.", {"enabled": True, "reason": "rule_match"}),
        **errors(ErrorCode.FLAG_NOT_FOUND, has_body=True),
    },
    examples=[
        OpenApiExample("A user", value={"userId": "user-17", "attributes": {"plan": "pro"}}, request_only=True),
    ],
)
