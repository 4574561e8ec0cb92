"""Events as clients send them: read one by one, so that a bad event of a batch is refused and the others are stored."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from config.api.bodies import defects
from config.api.failures import flatten
from config.api.fast import Name, convert
from config.api.serializers import ObjectField, StrictSerializer, TextField, TimestampField
from config.errors import Detail, DetailCode, ValidationFailed
from config.keys import NAME_LENGTH
from config.timestamps import parse_timestamp
from events.ingest import new_id
from events.properties import property_defects
from events.rows import NewEvent

_uuid = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE | re.ASCII)
_MOST_DETAILS = 20


class UuidField(serializers.UUIDField):
    """A UUID in its usual form, as a string."""

    default_error_messages = {
        "invalid_type": "Must be a string.",
        "null": "Must be a string.",
        "invalid_value": "Must be a UUID such as 01937a5e-9c1b-7d3a-8f00-4e1d2c3b4a59.",
    }

    def to_internal_value(self, data: Any) -> UUID:
        if not isinstance(data, str):
            self.fail("invalid_type")
        if not _uuid.fullmatch(data):
            self.fail("invalid_value")
        return UUID(data)


@extend_schema_field(
    {
        "type": "object",
        "properties": {
            "revenue": {"type": "number"},
            "currency": {"type": "string", "pattern": "^[A-Za-z]{3}$", "description": "ISO 4217."},
            "experimentId": {"type": "string", "description": "The id or key of an experiment."},
            "variant": {"type": "string", "description": "The variant of it that the user saw."},
        },
        "additionalProperties": True,
    }
)
class PropertiesField(ObjectField):
    """Anything, but the reserved names with their types: `events.properties` checks them."""


class EventSerializer(StrictSerializer):
    """Something that a user did. `revenue`, `currency`, `experimentId` and `variant` are reserved properties."""

    id = UuidField(required=False, help_text="Yours, so that sending the event again stores it once.")
    event = TextField(min_length=1, max_length=NAME_LENGTH)
    userId = TextField(min_length=1, max_length=NAME_LENGTH)
    timestamp = TimestampField(required=False, help_text="Default: the time of receipt.")
    properties = PropertiesField(required=False, help_text="At most 32 KiB as JSON.")


class _Event(msgspec.Struct, forbid_unknown_fields=True):
    event: Name
    userId: Name
    id: str | msgspec.UnsetType = msgspec.UNSET
    timestamp: str | msgspec.UnsetType = msgspec.UNSET
    properties: dict[str, Any] = {}


@dataclass(frozen=True, slots=True)
class Rejected:
    """An event of a batch that is not acceptable, with its own id where that could be read."""

    id: str | None
    details: Sequence[Detail]


def read_event(raw: Any, *, is_suspect: bool, at: datetime) -> NewEvent:
    """Read one event that was received at a moment. Raises ValidationFailed with every field that is to blame."""
    if is_suspect and (found := [detail for detail, _ in zip(defects(raw), range(_MOST_DETAILS), strict=False)]):
        raise ValidationFailed(found)
    event = _accept(raw, at)
    if event is None:
        raise ValidationFailed(_explain(raw))
    return event


def read_event_of_batch(raw: Any, *, is_suspect: bool, at: datetime) -> NewEvent | Rejected:
    """Read one event, or say what is wrong with it without spoiling the others."""
    try:
        return read_event(raw, is_suspect=is_suspect, at=at)
    except ValidationFailed as error:
        return Rejected(_own_id(raw), error.details)


def _own_id(raw: Any) -> str | None:
    sent = raw.get("id") if isinstance(raw, Mapping) else None
    return sent if isinstance(sent, str) and _uuid.fullmatch(sent) else None


def _accept(raw: Any, at: datetime) -> NewEvent | None:
    event = convert(raw, _Event)
    if event is None or any(property_defects(event.properties)):
        return None
    if event.id is not msgspec.UNSET and not _uuid.fullmatch(event.id):
        return None
    try:
        timestamp = at if event.timestamp is msgspec.UNSET else parse_timestamp(event.timestamp)
    except ValueError:
        return None
    event_id = new_id() if event.id is msgspec.UNSET else UUID(event.id)
    return NewEvent(event_id, event.userId, event.event, timestamp, at, event.properties)


def _explain(raw: Any) -> list[Detail]:
    serializer = EventSerializer(data=raw)
    details = [] if serializer.is_valid() else list(flatten(serializer.errors))
    properties = raw.get("properties") if isinstance(raw, Mapping) else None
    if isinstance(properties, Mapping):
        details.extend(property_defects(properties))
    return details or [Detail("", DetailCode.INVALID_VALUE, "Is not an event.")]
