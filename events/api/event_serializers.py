"""Events and acknowledgements as JSON in answers, and batches in requests."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from config.api.schema import DetailsField
from config.api.serializers import ArrayField, TimestampField
from config.errors import ErrorCode
from events.api.inputs import MOST_EVENTS, EventSerializer

STATUSES = ("accepted", "duplicate")


class BatchSerializer(serializers.Serializer[Any]):
    """Events that are stored together. Each is checked separately."""

    events = ArrayField(child=EventSerializer(), min_length=1, max_length=MOST_EVENTS)


class AcknowledgementSerializer(serializers.Serializer[Any]):
    """`accepted`: the event is committed to the database. `duplicate`: it had been stored before."""

    id = serializers.UUIDField()
    status = serializers.ChoiceField(choices=STATUSES)


class RejectionSerializer(serializers.Serializer[Any]):
    """Why an event of a batch was not stored."""

    code = serializers.ChoiceField(choices=[ErrorCode.VALIDATION_FAILED.value])
    message = serializers.CharField()
    details = DetailsField()


class BatchAcknowledgementSerializer(serializers.Serializer[Any]):
    """The outcome of one event of a batch. Only a rejected event has an `error`."""

    id = serializers.UUIDField(allow_null=True)
    status = serializers.ChoiceField(choices=(*STATUSES, "rejected"))
    error = RejectionSerializer(required=False)

    left_out_while_empty = ("error",)


class EventRecordSerializer(serializers.Serializer[Any]):
    """An event as it is stored."""

    id = serializers.UUIDField()
    event = serializers.CharField(source="name")
    userId = serializers.CharField(source="user_id")
    timestamp = TimestampField()
    receivedAt = TimestampField(source="received_at")
    properties = serializers.DictField()
