"""How the OpenAPI document describes the operations that read and write flags."""

from __future__ import annotations

from drf_spectacular.utils import OpenApiExample, extend_schema

from config.api.history import ENTRIES, HistoryPagination
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
from config.api.serializers import NoBodySerializer
from config.errors import ErrorCode
from flags.api.filters import FlagFilter
from flags.api.flag_serializers import (
    FlagSerializer,
    FlagUpdateSerializer,
    ListedFlagSerializer,
    RevertSerializer,
)

_KEY = key_in_path("flag_key", "flag")
_FLAG = {
    "id": "01937a5e-9c1b-7d3a-8f00-4e1d2c3b4a59",
    "key": "new-checkout",
    "description": "The one-page checkout",
    "enabled": True,
    "createdAt": "2026-01-31T12:00:00.000000Z",
    "rules": [{"type": "percentage", "percentage": 25}],
    "updatedAt": "2026-01-31T12:00:00.000000Z",
}
_NO_BODY = OpenApiExample("Nothing", value={}, request_only=True)

list_flags = extend_schema(
    operation_id="list_flags",
    summary="List flags",
    description="Returns all flags that are not archived, in order of their keys, with their state in the environment "
    "of the request. With `limit`, the `Link` header has the address of the next page.",
    parameters=[*parameters_of(FlagFilter), *paging()],
    responses={200: answer(ListedFlagSerializer(many=True), "The flags, without their rules."), **errors()},
)

retrieve = extend_schema(
    operation_id="get_flag",
    summary="Get a flag",
    description="Returns the flag with its rules. To change only the version that you have read, send its `ETag` "
    "back as `If-Match`.",
    parameters=[_KEY, *READING],
    responses={200: answer(FlagSerializer, "The flag."), **NOT_MODIFIED, **errors(ErrorCode.FLAG_NOT_FOUND)},
)

create = extend_schema(
    operation_id="create_flag",
    summary="Create a flag",
    description="`key` is required. In all other environments, the flag starts with the same rules, but off. All "
    "properties except `enabled` and `rules` are common to all environments. `expiresAt` does not change any "
    "evaluation.",
    parameters=[*IDEMPOTENCY, REASON, LOCATION, ETAG],
    request=FlagSerializer,
    responses={
        201: answer(FlagSerializer, "The created flag."),
        **errors(ErrorCode.ALREADY_EXISTS, ErrorCode.IDEMPOTENCY_CONFLICT, has_body=True),
    },
)

partial_update = extend_schema(
    operation_id="update_flag",
    summary="Update a flag",
    description="Properties that you send replace those of the flag; the others stay. Lists are replaced as a whole, "
    "and null removes a property. `enabled` and `rules` change in the environment of the request only, all else in "
    "all environments. You may edit a flag that you have read and send it back: properties that cannot be changed "
    "are accepted if they are as you read them.",
    parameters=[_KEY, IF_MATCH, REASON, ETAG],
    request=FlagUpdateSerializer,
    responses={
        200: answer(FlagSerializer, "The changed flag."),
        **errors(ErrorCode.FLAG_NOT_FOUND, ErrorCode.IN_USE, ErrorCode.PRECONDITION_FAILED, has_body=True),
    },
)

destroy = extend_schema(
    operation_id="delete_flag",
    summary="Delete a flag",
    description="Deletes the flag from all environments. This is refused if the flag is on in another environment, "
    "or a prerequisite of another flag. The history of the flag stays.",
    parameters=[_KEY, IF_MATCH, REASON],
    request=None,
    responses={
        204: None,
        **errors(
            ErrorCode.FLAG_NOT_FOUND, ErrorCode.ENABLED_ELSEWHERE, ErrorCode.IN_USE, ErrorCode.PRECONDITION_FAILED
        ),
    },
)

archive = extend_schema(
    operation_id="archive_flag",
    summary="Archive a flag",
    description="Archives the flag: it is off for all users in all environments, and left out of "
    "lists. Nothing else changes. This is refused if the flag is on in another environment, or a "
    "prerequisite of a flag that is not archived. A flag that is archived already stays as it is. "
    "The body may be missing, empty or `{}`.",
    parameters=[_KEY, IF_MATCH, REASON, ETAG],
    request=NoBodySerializer,
    responses={
        200: answer(FlagSerializer, "The archived flag.", {**_FLAG, "archivedAt": "2026-02-28T12:00:00.000000Z"}),
        **errors(
            ErrorCode.FLAG_NOT_FOUND,
            ErrorCode.ENABLED_ELSEWHERE,
            ErrorCode.IN_USE,
            ErrorCode.PRECONDITION_FAILED,
            has_body=True,
        ),
    },
    examples=[_NO_BODY],
)

restore = extend_schema(
    operation_id="restore_flag",
    summary="Restore a flag",
    description="Takes the flag out of the archive. It gets back the state and the rules that it "
    "had. This is refused if one of its prerequisites is archived. A flag that is not archived "
    "stays as it is. The body may be missing, empty or `{}`.",
    parameters=[_KEY, IF_MATCH, REASON, ETAG],
    request=NoBodySerializer,
    responses={
        200: answer(FlagSerializer, "The flag.", _FLAG),
        **errors(ErrorCode.FLAG_NOT_FOUND, ErrorCode.PRECONDITION_FAILED, has_body=True),
    },
    examples=[_NO_BODY],
)

revert = extend_schema(
    operation_id="revert_flag",
    summary="Revert a flag",
    description="Restores the flag as it was after a revision of its history in this environment: the properties "
    "that are common to all environments, and its state in this one. Its state in other environments does not "
    "change, and whether it is archived does not change. A revert is an edit like any other. If something that the "
    "flag needed then no longer exists, it is refused; the detail names `revision`.",
    parameters=[_KEY, IF_MATCH, REASON, ETAG],
    request=RevertSerializer,
    responses={
        200: answer(FlagSerializer, "The changed flag."),
        **errors(ErrorCode.FLAG_NOT_FOUND, ErrorCode.IN_USE, ErrorCode.PRECONDITION_FAILED, has_body=True),
    },
    examples=[OpenApiExample("A revision", value={"revision": 42}, request_only=True)],
)

history = extend_schema(
    operation_id="list_flag_history",
    summary="List the history of a flag",
    description="Returns the changes to the flag in this environment, and to the properties common to all, the newest "
    "first. Changes to deleted flags that had this key are included. The `Link` header has the address of the next "
    "page.",
    parameters=[_KEY, *paging(default=HistoryPagination.default_limit, most=HistoryPagination.max_limit)],
    responses={200: answer(ENTRIES, "The changes."), **errors(ErrorCode.FLAG_NOT_FOUND)},
)
