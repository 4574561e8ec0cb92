"""Segments as JSON. What their conditions and user ids may be is read by `flags.engine.parsing`."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from config.api.schema import NAME
from config.api.serializers import KeyField, RawField, StrictSerializer, TextField, TimestampField
from config.slugs import DESCRIPTION_LENGTH, KEY_RULE
from flags.api.rule_schema import CONDITIONS
from flags.engine.parsing import MOST_USER_IDS

_CONDITIONS = {**CONDITIONS, "description": "Who meets all of them is a member; where there are none, nobody does."}
_USER_IDS = {
    "type": "array",
    "items": NAME,
    "maxItems": MOST_USER_IDS,
    "uniqueItems": True,
    "description": "Members besides, whatever the conditions say.",
}


class SegmentEntrySerializer(StrictSerializer):
    """A segment in a list."""

    id = serializers.UUIDField(read_only=True)
    key = KeyField(help_text=KEY_RULE.capitalize() + ".")
    description = TextField(required=False, allow_blank=True, max_length=DESCRIPTION_LENGTH)
    createdAt = TimestampField(source="created_at", read_only=True)


class SegmentUsersSerializer(StrictSerializer):
    """Users to add to those that a segment lists, and users to take out."""

    add = RawField({**_USER_IDS, "description": "Those who are listed already stay."}, required=False)
    remove = RawField({**_USER_IDS, "description": "Those who are not listed are left out."}, required=False)


class SegmentUsersChangedSerializer(serializers.Serializer[Any]):
    """How many users came and went, and how many the segment lists now."""

    added = serializers.IntegerField(min_value=0)
    removed = serializers.IntegerField(min_value=0)
    total = serializers.IntegerField(min_value=0, max_value=MOST_USER_IDS)


class SegmentSerializer(StrictSerializer):
    """Users who belong together, in all environments: those who meet all conditions, and those who are listed."""

    id = serializers.UUIDField(read_only=True)
    key = KeyField(help_text=KEY_RULE.capitalize() + ".")
    description = TextField(required=False, allow_blank=True, max_length=DESCRIPTION_LENGTH)
    conditions = RawField(_CONDITIONS, required=False)
    userIds = RawField(_USER_IDS, source="user_ids", required=False)
    createdAt = TimestampField(source="created_at", read_only=True)
    updatedAt = TimestampField(source="updated_at", read_only=True)


class SegmentUpdateSerializer(SegmentSerializer):
    """What of a segment can be changed; the rest may be sent back as it was read."""

    key = KeyField(read_only=True)
