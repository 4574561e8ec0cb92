"""How the OpenAPI document describes the operations of /v1/segments."""

from __future__ import annotations

from drf_spectacular.utils import OpenApiExample, extend_schema

from config.api.schema import (
    ETAG,
    IDEMPOTENCY,
    IF_MATCH,
    LOCATION,
    NOT_MODIFIED,
    READING,
    REASON,
    TEXT,
    answer,
    errors,
    key_in_path,
    paging,
    query,
)
from config.errors import ErrorCode
from flags.api.segment_serializers import (
    SegmentEntrySerializer,
    SegmentSerializer,
    SegmentUpdateSerializer,
    SegmentUsersChangedSerializer,
    SegmentUsersSerializer,
)

_KEY = key_in_path("segment_key", "segment")
_ENTRY = {
    "id": "01937a5e-9c1b-7d3a-8f00-4e1d2c3b4a59",
    "key": "beta-testers",
    "description": "Our own people, and those who asked for it",
    "createdAt": "2026-01-31T12:00:00.000000Z",
}
_CONDITION = {"attribute": "email", "operator": "endsWith", "value": "@example.com", "ignoreCase": True}
_SENT = {
    "key": "beta-testers",
    "description": "Our own people, and those who asked for it",
    "conditions": [_CONDITION],
    "userIds": ["user-17"],
}
_SEGMENT = {**_ENTRY, **_SENT, "updatedAt": "2026-01-31T12:00:00.000000Z"}

list_segments = extend_schema(
    operation_id="list_segments",
    summary="List segments",
    description="All segments, ordered by key; they are common to all environments. "
    "Without `limit` all of them are answered; with it, the `Link` header names the next page.",
    parameters=[query("search", TEXT, "Part of the key or the description, in any case."), *paging()],
    responses={
        200: answer(SegmentEntrySerializer(many=True), "The segments, without their members.", _ENTRY),
        **errors(),
    },
)

retrieve = extend_schema(
    operation_id="get_segment",
    summary="Get a segment",
    description="The segment with all its members. Send its `ETag` back as `If-Match` to change only what you have "
    "seen.",
    parameters=[_KEY, *READING],
    responses={200: answer(SegmentSerializer, "The segment.", _SEGMENT), **NOT_MODIFIED, **errors(ErrorCode.NOT_FOUND)},
)

create = extend_schema(
    operation_id="create_segment",
    summary="Create a segment",
    description="`key` is required. Members are the users who meet all `conditions`, and those whose id is listed in "
    "`userIds`. A condition with the operator `inSegment` asks for another segment.",
    parameters=[*IDEMPOTENCY, REASON, LOCATION, ETAG],
    request=SegmentSerializer,
    responses={
        201: answer(SegmentSerializer, "The segment as it was created.", _SEGMENT),
        **errors(ErrorCode.ALREADY_EXISTS, ErrorCode.IDEMPOTENCY_CONFLICT, has_body=True),
    },
    examples=[OpenApiExample("By domain and by name", value=_SENT, request_only=True)],
)

partial_update = extend_schema(
    operation_id="update_segment",
    summary="Update a segment",
    description="What is sent replaces, what is not sent stays; `conditions` and `userIds` are replaced whole. The "
    "next evaluation in any environment sees it. What was read may be edited and sent back: properties that cannot be "
    "changed are accepted as they were read. Running experiments whose conditions ask for the segment get a new phase "
    "where its members change; one that has had as many phases as there may be refuses that.",
    parameters=[_KEY, IF_MATCH, REASON, ETAG],
    request=SegmentUpdateSerializer,
    responses={
        200: answer(SegmentSerializer, "The segment as it is now.", _SEGMENT),
        **errors(ErrorCode.NOT_FOUND, ErrorCode.EXPERIMENT_LOCKED, ErrorCode.PRECONDITION_FAILED, has_body=True),
    },
    examples=[OpenApiExample("Other users", value={"userIds": ["user-17", "user-18"]}, request_only=True)],
)

change_users = extend_schema(
    operation_id="change_segment_users",
    summary="Add users to a segment, or remove them",
    description="Only the users that are sent come or go; the others whom the segment lists stay. Those who are added "
    "come last. A user may not be in both lists. The history keeps who came and went.",
    parameters=[_KEY, IF_MATCH, REASON, ETAG],
    request=SegmentUsersSerializer,
    responses={
        200: answer(SegmentUsersChangedSerializer, "What has changed.", {"added": 2, "removed": 1, "total": 4_211}),
        **errors(ErrorCode.NOT_FOUND, ErrorCode.PRECONDITION_FAILED, ErrorCode.EXPERIMENT_LOCKED, has_body=True),
    },
    examples=[
        OpenApiExample("Both", value={"add": ["user-18", "user-19"], "remove": ["user-17"]}, request_only=True),
    ],
)

destroy = extend_schema(
    operation_id="delete_segment",
    summary="Delete a segment",
    description="Unless a flag in any environment, or another segment, asks for it. Its history stays.",
    parameters=[_KEY, IF_MATCH, REASON],
    request=None,
    responses={204: None, **errors(ErrorCode.NOT_FOUND, ErrorCode.IN_USE, ErrorCode.PRECONDITION_FAILED)},
)
