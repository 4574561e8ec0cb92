"""Flags as JSON. What their rules, values and prerequisites may be is read by `flags.engine.parsing`.

Here are their JSON types and, for the OpenAPI document, their schemas.
"""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from config.api.schema import KEY, closed_object, component
from config.api.serializers import (
    ChoiceField,
    KeyField,
    RawField,
    StrictSerializer,
    SwitchField,
    TextField,
    TimestampField,
    WholeNumberField,
)
from config.slugs import DESCRIPTION_LENGTH, KEY_RULE, NAME_LENGTH
from flags.api.rule_schema import RULES
from flags.changes.properties import MOST_TAGS
from flags.engine.types import ValueType
from flags.models import TAG_LENGTH
from flags.usage.staleness import StaleReason, stale_reasons

TYPE_HELP = "Of what JSON type the values of its variants are."
DEFAULT_HELP = "The variant served where no rule names one; the first, or of type boolean the first that is true."
STALE_HELP = " ".join(f"`{reason.value}`: {reason.meaning}" for reason in StaleReason)
OFF_HELP = "The variant served to those the flag is off for; the last, or of type boolean the first that is false."
VARIANTS = {
    "type": "array",
    "items": component(
        "FlagVariant",
        closed_object({"key": KEY, "value": {"description": "Of the flag's type; at most 32 KiB as JSON."}}),
    ),
    "maxItems": 50,
    "description": "The values that the flag may have, by distinct keys; they need a `type`.",
}
SCHEMA = {
    "type": "object",
    "description": "A JSON Schema (2020-12) that the value of every variant must meet. It refers to nothing but its "
    "own `$defs`, and never to itself; its patterns are those of RE2; it has at most 200 schemas in it, 30 deep; and "
    "it has no `patternProperties`, `unevaluatedProperties` or `unevaluatedItems`.",
    "additionalProperties": True,
}
PREREQUISITES = {
    "type": "array",
    "items": component(
        "Prerequisite",
        closed_object(
            {
                "flag": KEY,
                "variants": {"type": "array", "items": KEY, "minItems": 1, "maxItems": 50, "uniqueItems": True},
            },
            "Another flag that must be on for the user and, where `variants` are named, serve one of them.",
            optional=["variants"],
        ),
    ),
    "maxItems": 20,
}
TAGS = {
    "type": "array",
    "items": {"type": "string", "minLength": 1, "maxLength": TAG_LENGTH},
    "maxItems": MOST_TAGS,
    "uniqueItems": True,
    "description": "Words to find it by.",
}


class FlagEntrySerializer(StrictSerializer):
    """A flag in a list."""

    id = serializers.UUIDField(read_only=True)
    key = KeyField(help_text=KEY_RULE.capitalize() + ".")
    description = TextField(required=False, allow_blank=True, max_length=DESCRIPTION_LENGTH)
    enabled = SwitchField(required=False)
    createdAt = TimestampField(source="created_at", read_only=True)


class StaleReasonsField(serializers.ListField):
    """Why the flag as a whole is stale."""

    child = serializers.ChoiceField(choices=[reason.value for reason in StaleReason])

    def get_attribute(self, instance: Any) -> list[StaleReason]:
        return stale_reasons(instance)


class ListedFlagSerializer(FlagEntrySerializer):
    """A flag in a list of those that are stale."""

    staleReasons = StaleReasonsField(read_only=True, min_length=1, help_text=f"With `stale=true`. {STALE_HELP}")

    left_out_while_empty = ("staleReasons",)


class FlagSerializer(FlagEntrySerializer):
    """A flag as it stands in the environment of the request. A property that it does not have is left out."""

    rules = RawField(RULES, required=False)
    type = ChoiceField(choices=[each.value for each in ValueType], required=False, allow_null=True, help_text=TYPE_HELP)
    variants = RawField(VARIANTS, required=False, allow_null=True)
    defaultVariant = KeyField(source="default_variant", required=False, allow_null=True, help_text=DEFAULT_HELP)
    offVariant = KeyField(source="off_variant", required=False, allow_null=True, help_text=OFF_HELP)
    schema = RawField(SCHEMA, required=False, allow_null=True)
    prerequisites = RawField(PREREQUISITES, required=False, allow_null=True)
    tags = RawField(TAGS, required=False, allow_null=True)
    owner = TextField(required=False, allow_null=True, allow_blank=True, max_length=NAME_LENGTH)
    expiresAt = TimestampField(source="expires_at", required=False, allow_null=True)
    archivedAt = TimestampField(source="archived_at", read_only=True)
    updatedAt = TimestampField(source="updated_at", read_only=True)

    left_out_while_empty = (
        "type",
        "variants",
        "defaultVariant",
        "offVariant",
        "schema",
        "prerequisites",
        "tags",
        "owner",
        "expiresAt",
        "archivedAt",
    )

    def to_representation(self, instance: Any) -> dict[str, Any]:
        shown = super().to_representation(instance)
        return {
            name: shown[name]
            for name in _IN_ORDER
            if name not in self.left_out_while_empty or shown[name] not in (None, "", [])
        }


_IN_ORDER = (
    "id",
    "key",
    "description",
    "enabled",
    "rules",
    *FlagSerializer.left_out_while_empty,
    "createdAt",
    "updatedAt",
)


class FlagUpdateSerializer(FlagSerializer):
    """What of a flag can be changed; the rest may be sent back as it was read. Null removes a property."""

    key = KeyField(read_only=True)


class RevertSerializer(StrictSerializer):
    """Which version of a flag to go back to."""

    revision = WholeNumberField(min_value=1, help_text="As the history numbers it: the flag becomes what it was after.")
