"""How the OpenAPI document describes the operations of /v1/segments."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema

from config.api.schema import (
    ETAG,
    IDEMPOTENCY,
    IF_MATCH,
    LOCATION,
    NOT_MODIFIED,
    READING,
    REASON,
    answer,
    errors,
    key_in_path,
    paging,
    parameters_of,
)
from config.errors import ErrorCode
from flags.api.filters import SegmentFilter
from flags.api.segment_serializers import (
    SegmentEntrySerializer,
    SegmentSerializer,
    SegmentUpdateSerializer,
    SegmentUsersChangedSerializer,
    SegmentUsersSerializer,
)

_KEY = key_in_path("segment_key", "segment")

list_segments = extend_schema(
    operation_id="list_segments",
    summary="List segments",
    description="Returns all segments, in order of their keys. They are common to all environments. With `limit`, the "
    "`Link` header has the address of the next page.",
    parameters=[*parameters_of(SegmentFilter), *paging()],
    responses={
        200: answer(SegmentEntrySerializer(many=True), "The segments, without their members."),
        **errors(),
    },
)

retrieve = extend_schema(
    operation_id="get_segment",
    summary="Get a segment",
    description="Returns the segment with its members. To change only the version that you have read, send its `ETag` "
    "back as `If-Match`.",
    parameters=[_KEY, *READING],
    responses={200: answer(SegmentSerializer, "The segment."), **NOT_MODIFIED, **errors(ErrorCode.NOT_FOUND)},
)

create = extend_schema(
    operation_id="create_segment",
    summary="Create a segment",
    description="`key` is required. Members are the users who meet all `conditions`, and those whose ids are in "
    "`userIds`. A condition with the operator `inSegment` refers to another segment.",
    parameters=[*IDEMPOTENCY, REASON, LOCATION, ETAG],
    request=SegmentSerializer,
    responses={
        201: answer(SegmentSerializer, "The created segment."),
        **errors(ErrorCode.ALREADY_EXISTS, ErrorCode.IDEMPOTENCY_CONFLICT, has_body=True),
    },
)

partial_update = extend_schema(
    operation_id="update_segment",
    summary="Update a segment",
    description="Properties that you send replace those of the segment; the others stay. `conditions` and `userIds` "
    "are replaced as a whole. The change applies to the next evaluation in every environment. You may edit a segment "
    "that you have read and send it back: properties that cannot be changed are accepted if they are as you read them. "
    "If the members change, running experiments whose conditions refer to the segment get a new phase. The change is "
    "refused if one of them has the maximum number of phases already.",
    parameters=[_KEY, IF_MATCH, REASON, ETAG],
    request=SegmentUpdateSerializer,
    responses={
        200: answer(SegmentSerializer, "The changed segment."),
        **errors(ErrorCode.NOT_FOUND, ErrorCode.EXPERIMENT_LOCKED, ErrorCode.PRECONDITION_FAILED, has_body=True),
    },
)

change_users = extend_schema(
    operation_id="change_segment_users",
    summary="Add users to a segment, or remove them",
    description="Adds some users to `userIds` and removes others; the rest of the list stays. Added users come last. A "
    "user may not be in both lists. The history keeps the users that were added and removed.",
    parameters=[_KEY, IF_MATCH, REASON, ETAG],
    request=SegmentUsersSerializer,
    responses={
        200: answer(
            SegmentUsersChangedSerializer,
            "How many users were added and removed.",
        ),
        **errors(ErrorCode.NOT_FOUND, ErrorCode.PRECONDITION_FAILED, ErrorCode.EXPERIMENT_LOCKED, has_body=True),
    },
)

destroy = extend_schema(
    operation_id="delete_segment",
    summary="Delete a segment",
    description="Deletes the segment. This is refused if another segment, or a flag, a draft or a "
    "running experiment in any environment, refers to it. The history of the segment stays.",
    parameters=[_KEY, IF_MATCH, REASON],
    request=None,
    responses={204: None, **errors(ErrorCode.NOT_FOUND, ErrorCode.IN_USE, ErrorCode.PRECONDITION_FAILED)},
)
