"""Flags as JSON: serializers, and the schemas of their properties for the OpenAPI document.

`flags.validation.parsing` checks rules, values and prerequisites.
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import UNSET, UnsetType
from rest_framework import serializers

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
from config.api.structs import Answer, Key, described, schema_of, shaped
from config.slugs import DESCRIPTION_LENGTH, KEY_RULE, NAME_LENGTH
from flags.api.rule_schema import RULES
from flags.changes.properties import MAX_TAGS
from flags.engine.types import ValueType
from flags.explanations.rule_words import describe_state
from flags.models import TAG_LENGTH
from flags.usage.staleness import StaleReason, stale_reasons
from flags.validation.parsing import MAX_PREREQUISITES
from flags.validation.shapes import MAX_VARIANTS

TYPE_HELP = "The JSON type of the values of the variants."
DEFAULT_HELP = (
    "The variant served if no rule names one. Default: the first variant or, for type boolean, the first that is true."
)
OFF_HELP = (
    "The variant served to users for whom the flag is off. Default: the last variant or, for type boolean, the first "
    "that is false."
)
SUMMARY_HELP = (
    "For whom the flag is on in the environment of the request, in English: "
    "`on for everyone from 23 Nov 2026, 13:36 UTC`. The words are true at the moment of the answer."
)
STALE_HELP = " ".join(f"`{reason.value}`: {reason.meaning}" for reason in StaleReason)


class FlagVariant(Answer):
    """A value that the flag can have."""

    key: Annotated[Key, described("The key of the variant.")]
    value: Annotated[Any, described("The value, of the type of the flag. It has at most 32 KiB as JSON.")]


class Prerequisite(Answer):
    """Another flag that must be on for the user and, if there are `variants`, serve one of them."""

    flag: Annotated[Key, described("The key of the other flag.")]
    variants: Annotated[
        list[Key] | UnsetType,
        shaped({"minItems": 1, "maxItems": MAX_VARIANTS, "uniqueItems": True}),
        described("The variants that meet the prerequisite. If left out, any variant does."),
    ] = UNSET


VARIANTS = {
    "type": "array",
    "items": schema_of(FlagVariant),
    "maxItems": MAX_VARIANTS,
    "description": "The values that the flag can have, with distinct keys. They require a `type`.",
}
PREREQUISITES = {
    "type": "array",
    "items": schema_of(Prerequisite),
    "maxItems": MAX_PREREQUISITES,
    "description": "The flags that this flag needs to be on.",
}
SCHEMA = {
    "type": "object",
    "description": "A JSON Schema (2020-12) that the value of every variant must meet. References may only point to "
    "its own `$defs`, and must not be recursive. Patterns are those of RE2. It may contain at most 200 schemas, "
    "at most 30 deep, and no `patternProperties`, `unevaluatedProperties` or `unevaluatedItems`.",
    "additionalProperties": True,
}
TAGS = {
    "type": "array",
    "items": {"type": "string", "minLength": 1, "maxLength": TAG_LENGTH},
    "maxItems": MAX_TAGS,
    "uniqueItems": True,
    "description": "Labels to find the flag by.",
}


class FlagEntrySerializer(StrictSerializer):
    """A flag in a list."""

    id = serializers.UUIDField(read_only=True)
    key = KeyField(help_text=KEY_RULE.capitalize() + ".")
    description = TextField(required=False, allow_blank=True, max_length=DESCRIPTION_LENGTH)
    enabled = SwitchField(required=False)
    createdAt = TimestampField(source="created_at", read_only=True)


class StaleReasonsField(serializers.ListField):
    """The reasons why a flag is stale."""

    child = serializers.ChoiceField(choices=[reason.value for reason in StaleReason])

    def get_attribute(self, instance: Any) -> list[StaleReason]:
        return stale_reasons(instance)


class SummaryField(serializers.CharField):
    """For whom a flag is on, in words, at the time `summary_at` of the context. None without that time."""

    def __init__(self) -> None:
        super().__init__(read_only=True, help_text=f"Only with `summary=true`. {SUMMARY_HELP}")

    def get_attribute(self, instance: Any) -> str | None:
        if (at := self.context.get("summary_at")) is None:
            return None
        state = {"enabled": instance.enabled, "rules": instance.rules, "prerequisites": instance.prerequisites}
        return str(describe_state({**state, "archivedAt": instance.archived_at}, at))


class ListedFlagSerializer(FlagEntrySerializer):
    """A flag in a list. With `stale=true`, it has the reasons why it is stale, and with `summary=true` its summary."""

    summary = SummaryField()
    staleReasons = StaleReasonsField(read_only=True, min_length=1, help_text=f"Only with `stale=true`. {STALE_HELP}")

    left_out_while_empty = ("summary", "staleReasons")

    def to_representation(self, instance: Any) -> dict[str, Any]:
        shown = super().to_representation(instance)
        return {name: value for name, value in shown.items() if value or name not in self.left_out_while_empty}


class ClientVisibleField(SwitchField):
    """Whether keys of scope `client` may evaluate a flag. It is left out while it is true."""

    def to_representation(self, value: bool) -> Any:
        return None if value else False


class FlagSerializer(FlagEntrySerializer):
    """A flag with its state in the environment of the request. Properties that it does not have are left out."""

    rules = RawField(RULES, required=False)
    summary = SummaryField()
    type = ChoiceField(choices=[str(kind) for kind in ValueType], required=False, allow_null=True, help_text=TYPE_HELP)
    variants = RawField(VARIANTS, required=False, allow_null=True)
    defaultVariant = KeyField(source="default_variant", required=False, allow_null=True, help_text=DEFAULT_HELP)
    offVariant = KeyField(source="off_variant", required=False, allow_null=True, help_text=OFF_HELP)
    schema = RawField(SCHEMA, required=False, allow_null=True)
    prerequisites = RawField(PREREQUISITES, required=False, allow_null=True)
    tags = RawField(TAGS, required=False, allow_null=True)
    owner = TextField(required=False, allow_null=True, allow_blank=True, max_length=NAME_LENGTH)
    expiresAt = TimestampField(source="expires_at", required=False, allow_null=True)
    clientVisible = ClientVisibleField(
        source="client_visible",
        required=False,
        allow_null=True,
        help_text="Whether keys of scope `client` may evaluate the flag. It is left out while it is true, as it is for "
        "a new flag. To such keys, a flag with false seems not to exist, but it still decides as a prerequisite.",
    )
    archivedAt = TimestampField(source="archived_at", read_only=True)
    updatedAt = TimestampField(source="updated_at", read_only=True)

    left_out_while_empty = (
        "summary",
        "type",
        "variants",
        "defaultVariant",
        "offVariant",
        "schema",
        "prerequisites",
        "tags",
        "owner",
        "expiresAt",
        "clientVisible",
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
    """The properties of a flag that can be changed. Null removes one. The others may be sent back as they were read."""

    key = KeyField(read_only=True)

    computed = frozenset({"summary"})


class RevertSerializer(StrictSerializer):
    """What to restore."""

    revision = WholeNumberField(
        min_value=1, help_text="A revision of the history. The flag or segment becomes what it was after this revision."
    )
