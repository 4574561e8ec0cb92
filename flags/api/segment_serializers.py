"""Segments as JSON. `flags.validation.parsing` checks their conditions and user ids."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from config.api.schema import NAME
from config.api.serializers import KeyField, RawField, StrictSerializer, TextField, TimestampField
from config.slugs import DESCRIPTION_LENGTH, KEY_RULE
from flags.api.rule_schema import CONDITIONS
from flags.validation.parsing import MAX_USER_IDS

_CONDITIONS = {**CONDITIONS, "description": "Users who meet all of them are members. No user meets an empty list."}
_USER_IDS = {
    "type": "array",
    "items": NAME,
    "maxItems": MAX_USER_IDS,
    "uniqueItems": True,
    "description": "The ids of further members, who need not meet the conditions.",
}


class SegmentEntrySerializer(StrictSerializer):
    """A segment in a list."""

    id = serializers.UUIDField(read_only=True)
    key = KeyField(help_text=KEY_RULE.capitalize() + ".")
    description = TextField(required=False, allow_blank=True, max_length=DESCRIPTION_LENGTH)
    createdAt = TimestampField(source="created_at", read_only=True)


class SegmentUsersSerializer(StrictSerializer):
    """Users to add to `userIds` of a segment, and users to remove."""

    add = RawField(
        {**_USER_IDS, "description": "Ids to add. Those in the list already stay."},
        required=False,
    )
    remove = RawField({**_USER_IDS, "description": "Ids to remove. Those not in the list are ignored."}, required=False)


class SegmentUsersChangedSerializer(serializers.Serializer[Any]):
    """How many users were added and removed, and how many the list has now."""

    added = serializers.IntegerField(min_value=0)
    removed = serializers.IntegerField(min_value=0)
    total = serializers.IntegerField(min_value=0, max_value=MAX_USER_IDS)


class SegmentSerializer(StrictSerializer):
    """A group of users, the same in all environments: those who meet all conditions, and those who are listed."""

    id = serializers.UUIDField(read_only=True)
    key = KeyField(help_text=KEY_RULE.capitalize() + ".")
    description = TextField(required=False, allow_blank=True, max_length=DESCRIPTION_LENGTH)
    conditions = RawField(_CONDITIONS, required=False)
    userIds = RawField(_USER_IDS, source="user_ids", required=False)
    createdAt = TimestampField(source="created_at", read_only=True)
    updatedAt = TimestampField(source="updated_at", read_only=True)


class SegmentUpdateSerializer(SegmentSerializer):
    """The properties of a segment that can be changed. The others may be sent back as they were read."""

    key = KeyField(read_only=True)
