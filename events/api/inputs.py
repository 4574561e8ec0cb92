"""Events as clients send them.

Valid batches are read in one pass. Others are read event by event, so that invalid events are refused and the others
are stored.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

import msgspec
import orjson
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from uuid_utils import uuid7

from config.api.bodies import Name, convert, decode, decode_as, defects, is_maybe_deep, repetitions
from config.api.failures import flatten
from config.api.serializers import ObjectField, StrictSerializer, TextField, TimestampField
from config.errors import Detail, DetailCode, DomainError, ErrorCode, ValidationFailed
from config.slugs import NAME_LENGTH
from config.timestamps import parse_timestamp
from events.properties import MAX_BYTES, Reserved, property_defects
from events.recording import NewEvent

_uuid = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE | re.ASCII)
_MAX_DETAILS = 20

MAX_EVENTS = 1000
"""In one batch."""


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
            "variant": {"type": "string", "description": "The variant of the experiment that the user saw."},
        },
        "additionalProperties": True,
    }
)
class PropertiesField(ObjectField):
    """Any properties. Those with reserved names must have their types, which `events.properties` checks."""


class EventSerializer(StrictSerializer):
    """Something that a user did. `revenue`, `currency`, `experimentId` and `variant` are reserved properties."""

    id = UuidField(
        required=False, help_text="An id of your choice. With it, an event that is sent again is stored once."
    )
    event = TextField(min_length=1, max_length=NAME_LENGTH)
    userId = TextField(min_length=1, max_length=NAME_LENGTH)
    timestamp = TimestampField(required=False, help_text="Default: the time of receipt.")
    properties = PropertiesField(required=False, help_text="At most 32 KiB as JSON.")


_Uuid = Annotated[str, msgspec.Meta(pattern=r"^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}\Z")]


class _Event(msgspec.Struct, forbid_unknown_fields=True):
    event: Name
    userId: Name
    id: _Uuid | msgspec.UnsetType = msgspec.UNSET
    timestamp: str | msgspec.UnsetType = msgspec.UNSET
    properties: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET


class _Batch(msgspec.Struct, forbid_unknown_fields=True):
    events: Annotated[list[_Event], msgspec.Meta(min_length=1, max_length=MAX_EVENTS)]


_event_decoder = msgspec.json.Decoder(_Event)
_batch_decoder = msgspec.json.Decoder(_Batch)


@dataclass(frozen=True, slots=True)
class Rejected:
    """An invalid event of a batch, with its own id if that could be read."""

    id: str | None
    details: Sequence[Detail]


def read_event(raw: bytes, *, received_at: datetime) -> NewEvent:
    """Return the event of a body. Raises ValidationFailed with all invalid fields."""
    sent = decode_as(raw, _event_decoder)
    if sent is not None and (events := _complete([sent], received_at)):
        return events[0]
    body = decode(raw)
    return _read_decoded(body.value, received_at, is_suspect=body.is_suspect)


def read_batch(raw: bytes, *, received_at: datetime) -> Sequence[NewEvent | Rejected]:
    """Return the events of a body, or what is wrong with each. Raises ValidationFailed for an invalid batch."""
    sent = decode_as(raw, _batch_decoder)
    if sent is not None and (events := _complete(sent.events, received_at)):
        return events
    body = decode(raw)
    return [_read_one_of_many(event, received_at, is_suspect=body.is_suspect) for event in _events_of(body.value)]


def _complete(sent: Sequence[_Event], received_at: datetime) -> list[NewEvent] | None:
    """Check what the types do not cover, and return the events to store, or None if one of them is invalid."""
    properties = [{} if event.properties is msgspec.UNSET else event.properties for event in sent]
    ids = [str(uuid7()) if event.id is msgspec.UNSET else event.id for event in sent]
    try:
        msgspec.convert(properties, list[Reserved])
        timestamps = [
            received_at if event.timestamp is msgspec.UNSET else parse_timestamp(event.timestamp) for event in sent
        ]
    except ValueError:
        return None
    if not all(map(_is_storable, properties)):
        return None
    return [
        NewEvent(event_id, event.userId, event.event, timestamp, received_at, values)
        for event, event_id, timestamp, values in zip(
            sent, msgspec.convert(ids, list[UUID]), timestamps, properties, strict=True
        )
    ]


def _is_storable(properties: Mapping[str, Any]) -> bool:
    try:
        as_json = orjson.dumps(properties)
    except orjson.JSONEncodeError:  # an integer beyond 64 bits
        return False
    # They are one level deep in their event.
    return len(as_json) <= MAX_BYTES and not (is_maybe_deep(as_json, 1) and any(defects(properties, depth=1)))


def _events_of(batch: Any) -> list[Any]:
    """Return the events of a batch. Raises ValidationFailed if the batch itself is invalid."""
    if not isinstance(batch, Mapping):
        raise ValidationFailed([Detail("", DetailCode.INVALID_TYPE, "Must be a JSON object.")])
    unknown = [
        Detail(name, DetailCode.UNKNOWN_FIELD, "Unknown field; use events.") for name in batch if name != "events"
    ]
    if wrong := [*repetitions(batch), *unknown]:
        raise ValidationFailed(wrong)
    if "events" not in batch:
        raise ValidationFailed([Detail("events", DetailCode.REQUIRED, "This field is required.")])
    events = batch["events"]
    if not isinstance(events, list):
        raise ValidationFailed([Detail("events", DetailCode.INVALID_TYPE, "Must be an array.")])
    if not events:
        raise ValidationFailed([Detail("events", DetailCode.OUT_OF_RANGE, "Must not be empty.")])
    if len(events) > MAX_EVENTS:
        message = f"Send at most {MAX_EVENTS:,} events in one batch; these are {len(events):,}."
        raise DomainError(ErrorCode.BATCH_TOO_LARGE, message)
    return events


def _read_one_of_many(raw: Any, received_at: datetime, *, is_suspect: bool) -> NewEvent | Rejected:
    """Return one event, or what is wrong with it, without affecting the others."""
    try:
        return _read_decoded(raw, received_at, is_suspect=is_suspect)
    except ValidationFailed as error:
        return Rejected(_own_id(raw), error.details)


def _read_decoded(raw: Any, received_at: datetime, *, is_suspect: bool) -> NewEvent:
    """Return one decoded event. Raises ValidationFailed with all invalid fields."""
    if is_suspect and (found := [detail for detail, _ in zip(defects(raw), range(_MAX_DETAILS), strict=False)]):
        raise ValidationFailed(found)
    sent = convert(raw, _Event)
    events = None if sent is None else _complete([sent], received_at)
    if not events:
        raise ValidationFailed(_explain(raw))
    return events[0]


def _own_id(raw: Any) -> str | None:
    sent = raw.get("id") if isinstance(raw, Mapping) else None
    return sent if isinstance(sent, str) and _uuid.fullmatch(sent) else None


def _explain(raw: Any) -> list[Detail]:
    serializer = EventSerializer(data=raw)
    details = [] if serializer.is_valid() else list(flatten(serializer.errors))
    properties = raw.get("properties") if isinstance(raw, Mapping) else None
    if isinstance(properties, Mapping):
        details.extend(property_defects(properties))
    return details or [Detail("", DetailCode.INVALID_VALUE, "Is not an event.")]
