"""Flags as JSON. What a rule may hold is read by `flags.engine.parsing` and described by `flags.rule_schema`."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from config.api.serializers import (
    KeyField,
    ObjectField,
    StrictSerializer,
    SwitchField,
    TextField,
    TimestampField,
)
from config.keys import KEY_RULE, NAME_LENGTH
from flags.engine.types import Reason
from flags.models import DESCRIPTION_LENGTH
from flags.rule_schema import RULES


@extend_schema_field(RULES)
class RulesField(serializers.JSONField):
    """Rules as they were sent; the domain parses them."""


class FlagEntrySerializer(StrictSerializer):
    """A flag in a list."""

    id = serializers.UUIDField(read_only=True)
    key = KeyField(help_text=KEY_RULE.capitalize() + ".")
    description = TextField(required=False, allow_blank=True, max_length=DESCRIPTION_LENGTH)
    enabled = SwitchField(required=False)
    createdAt = TimestampField(source="created_at", read_only=True)


class FlagSerializer(FlagEntrySerializer):
    """A flag as it stands in the environment of the request."""

    rules = RulesField(required=False)
    updatedAt = TimestampField(source="updated_at", read_only=True)

    def to_representation(self, instance: Any) -> dict[str, Any]:
        shown = super().to_representation(instance)
        return {name: shown[name] for name in _AS_DOCUMENTED}


_AS_DOCUMENTED = ("id", "key", "description", "enabled", "rules", "createdAt", "updatedAt")


class FlagUpdateSerializer(FlagSerializer):
    """What of a flag can be changed; the rest may be sent back as it was read."""

    key = KeyField(read_only=True)


class EvaluationRequestSerializer(StrictSerializer):
    """The user to evaluate a flag for."""

    userId = TextField(min_length=1, max_length=NAME_LENGTH)
    attributes = ObjectField(required=False, help_text="What rules may ask about the user.")


class EvaluationSerializer(serializers.Serializer[Any]):
    """Whether the flag is on for the user, and why."""

    enabled = serializers.BooleanField()
    reason = serializers.ChoiceField(choices=[reason.value for reason in Reason])
