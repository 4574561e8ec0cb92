"""How the OpenAPI document describes the operations that read and write flags."""

from __future__ import annotations

from drf_spectacular.utils import OpenApiExample, extend_schema

from config.api.history import ENTRIES, EXAMPLE, HistoryPagination
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
from config.api.serializers import NoBodySerializer
from config.errors import ErrorCode
from config.slugs import NAME_LENGTH
from flags.api.flag_serializers import (
    STALE_HELP,
    FlagSerializer,
    FlagUpdateSerializer,
    ListedFlagSerializer,
    RevertSerializer,
)
from flags.models import TAG_LENGTH

_KEY = key_in_path("flag_key", "flag")
_SWITCH = {"type": "boolean"}
_RULES = [{"type": "percentage", "percentage": 25}]
_ENTRY = {
    "id": "01937a5e-9c1b-7d3a-8f00-4e1d2c3b4a59",
    "key": "new-checkout",
    "description": "The one-page checkout",
    "enabled": True,
    "createdAt": "2026-01-31T12:00:00.000000Z",
}
_FLAG = {**_ENTRY, "rules": _RULES, "updatedAt": "2026-01-31T12:00:00.000000Z"}
_COLOURS = {
    "key": "button-colour",
    "enabled": True,
    "type": "string",
    "variants": [{"key": "blue", "value": "#00f"}, {"key": "green", "value": "#0f0"}],
    "rules": [
        {
            "type": "percentage",
            "percentage": 50,
            "split": [{"variant": "blue", "weight": 1}, {"variant": "green", "weight": 1}],
        }
    ],
    "prerequisites": [{"flag": "new-checkout"}],
    "tags": ["checkout"],
    "owner": "shop-team",
    "expiresAt": "2026-12-31T00:00:00Z",
}
_NOTHING = OpenApiExample("Nothing", value={}, request_only=True)

list_flags = extend_schema(
    operation_id="list_flags",
    summary="List flags",
    description="All flags that are not archived, ordered by key, as they stand in the environment of the request. "
    "Without `limit` all of them are answered; with it, the `Link` header names the next page.",
    parameters=[
        query("enabled", _SWITCH, "Only flags that are on, or off, in this environment."),
        query("search", TEXT, "Part of the key or the description, in any case."),
        query("tag", {**TEXT, "maxLength": TAG_LENGTH}, "Only flags with exactly this tag."),
        query("owner", {**TEXT, "maxLength": NAME_LENGTH}, "Only flags of exactly this owner."),
        query("archived", _SWITCH, "Only archived flags; without it, or with `false`, only the others."),
        query("expired", _SWITCH, "Only flags whose `expiresAt` has passed, or only the others."),
        query(
            "stale",
            _SWITCH,
            "Only flags that have had their day in this environment, each with its `staleReasons`, or only the others. "
            f"Archived ones never are. {STALE_HELP}",
        ),
        *paging(),
    ],
    responses={200: answer(ListedFlagSerializer(many=True), "The flags, without their rules.", _ENTRY), **errors()},
)

retrieve = extend_schema(
    operation_id="get_flag",
    summary="Get a flag",
    description="The flag with its rules. Send its `ETag` back as `If-Match` to change only what you have seen.",
    parameters=[_KEY, *READING],
    responses={200: answer(FlagSerializer, "The flag.", _FLAG), **NOT_MODIFIED, **errors(ErrorCode.FLAG_NOT_FOUND)},
)

create = extend_schema(
    operation_id="create_flag",
    summary="Create a flag",
    description="`key` is required. The flag is as given in the environment of the request; in all others it starts "
    "off, with the same rules. All but `enabled` and `rules` is common to all environments. `expiresAt` informs, and "
    "changes no evaluation.",
    parameters=[*IDEMPOTENCY, REASON, LOCATION, ETAG],
    request=FlagSerializer,
    responses={
        201: answer(FlagSerializer, "The flag as it was created.", _FLAG),
        **errors(ErrorCode.ALREADY_EXISTS, ErrorCode.IDEMPOTENCY_CONFLICT, has_body=True),
    },
    examples=[
        OpenApiExample(
            "A quarter of all users",
            value={"key": "new-checkout", "description": "The one-page checkout", "enabled": True, "rules": _RULES},
            request_only=True,
        ),
        OpenApiExample("Two colours", value=_COLOURS, request_only=True),
    ],
)

partial_update = extend_schema(
    operation_id="update_flag",
    summary="Update a flag",
    description="What is sent replaces, what is not sent stays; lists are replaced whole, and null removes a "
    "property. `enabled` and `rules` are those of the environment of the request, all else is common to all. What was "
    "read may be edited and sent back: properties that cannot be changed are accepted as they were read.",
    parameters=[_KEY, IF_MATCH, REASON, ETAG],
    request=FlagUpdateSerializer,
    responses={
        200: answer(FlagSerializer, "The flag as it is now.", _FLAG),
        **errors(ErrorCode.FLAG_NOT_FOUND, ErrorCode.IN_USE, ErrorCode.PRECONDITION_FAILED, has_body=True),
    },
    examples=[
        OpenApiExample("Switch it off", value={"enabled": False}, request_only=True),
        OpenApiExample("Nobody owns it any more", value={"owner": None}, request_only=True),
    ],
)

destroy = extend_schema(
    operation_id="delete_flag",
    summary="Delete a flag",
    description="Deletes it from every environment, unless it is on in another one or a prerequisite of another flag. "
    "Its history stays.",
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
    description="Off for everyone in every environment, and left out of lists, but otherwise as it was. Refused while "
    "it is on in another environment, or a prerequisite of a flag that is not archived. One that is archived already "
    "stays as it is. Takes no body, an empty one or `{}`.",
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
    examples=[_NOTHING],
)

restore = extend_schema(
    operation_id="restore_flag",
    summary="Restore a flag",
    description="Takes it out of the archive, as it was when it was put there, unless a prerequisite of it is still "
    "there. One that is not archived stays as it is. Takes no body, an empty one or `{}`.",
    parameters=[_KEY, IF_MATCH, REASON, ETAG],
    request=NoBodySerializer,
    responses={
        200: answer(FlagSerializer, "The flag.", _FLAG),
        **errors(ErrorCode.FLAG_NOT_FOUND, ErrorCode.PRECONDITION_FAILED, has_body=True),
    },
    examples=[_NOTHING],
)

revert = extend_schema(
    operation_id="revert_flag",
    summary="Revert a flag",
    description="Makes the flag what it was after a revision of its history here: what is common to all "
    "environments, and its state in this one. Other environments, and whether it is archived, stay as they are. It is "
    "an edit like any other, and refused as one, by its `revision`, where something that the flag needed then is gone.",
    parameters=[_KEY, IF_MATCH, REASON, ETAG],
    request=RevertSerializer,
    responses={
        200: answer(FlagSerializer, "The flag as it is now.", _FLAG),
        **errors(ErrorCode.FLAG_NOT_FOUND, ErrorCode.IN_USE, ErrorCode.PRECONDITION_FAILED, has_body=True),
    },
    examples=[OpenApiExample("A revision", value={"revision": 42}, request_only=True)],
)

history = extend_schema(
    operation_id="list_flag_history",
    summary="List the history of a flag",
    description="What was changed of the flag in this environment and in what is common to all, newest first; also of "
    "flags that had this key and are deleted. The `Link` header names the next page.",
    parameters=[_KEY, *paging(default=HistoryPagination.default_limit, most=HistoryPagination.max_limit)],
    responses={200: answer(ENTRIES, "The changes.", [EXAMPLE]), **errors(ErrorCode.FLAG_NOT_FOUND)},
)
