"""The OpenAPI description of the operations of /v1/events."""

from __future__ import annotations

import re

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, extend_schema

from config.api.schema import IDEMPOTENCY, MOMENT, NAME, answer, errors, paging, query
from config.errors import ErrorCode
from events.api.event_serializers import (
    AcknowledgementSerializer,
    BatchAcknowledgementSerializer,
    BatchSerializer,
    EventRecordSerializer,
)
from events.api.filters import MOST_PROPERTIES, PROPERTY, TEXT_LENGTH
from events.api.inputs import EventSerializer
from events.queries.exports import FORMS

create = extend_schema(
    operation_id="track_event",
    summary="Track an event",
    description="`accepted` means that the event is committed to the database. An event that has "
    "an `id` can be sent again: the answer is then `duplicate`, and the event is stored once.",
    parameters=IDEMPOTENCY,
    request=EventSerializer,
    responses={
        202: answer(AcknowledgementSerializer, "The event is stored."),
        **errors(ErrorCode.IDEMPOTENCY_CONFLICT, has_body=True),
    },
)

batch = extend_schema(
    operation_id="batch_events",
    summary="Track a batch of events",
    description="Send 1 to 1,000 events. The answer has an entry for each, in the same order. An "
    "invalid event is `rejected` with its error, and the others are stored. If all events are "
    "invalid, the answer is 400, and its `details` name `events[i].field`.",
    parameters=IDEMPOTENCY,
    request=BatchSerializer,
    responses={
        202: answer(BatchAcknowledgementSerializer(many=True), "The outcome of each event."),
        **errors(ErrorCode.IDEMPOTENCY_CONFLICT, ErrorCode.BATCH_TOO_LARGE, has_body=True),
    },
    # The tour shows a batch in which an event is rejected.
    examples=[OpenApiExample("A batch", value={"events": [{"event": "purchase", "userId": "ada"}]}, request_only=True)],
)

_PROPERTIES = OpenApiParameter(
    "properties",
    {
        "type": "object",
        "propertyNames": {"pattern": rf"^{re.escape(PROPERTY)}[^\u0000]*$"},
        "additionalProperties": {**NAME, "maxLength": TEXT_LENGTH},
        "maxProperties": MOST_PROPERTIES,
    },
    OpenApiParameter.QUERY,
    style="form",
    explode=True,
    description="`properties.<name>=<value>`, once or several times: only events whose property "
    "has this value. The value is a text, or the number, `true`, `false` or `null` that the text "
    "spells. The name must be exactly the same, including dots. Requires `event` or `userId`.",
)

list_events = extend_schema(
    operation_id="query_events",
    summary="Query events",
    description="Returns events, newest first, by timestamp and then id. The `Link` header names "
    "the next page. With `Accept: application/x-ndjson` or `text/csv`, the answer is one file "
    "with all events that match the filters, sent while it is written. Such a request must not "
    "have `limit` or `cursor`. A file that breaks off ends within a record.",
    parameters=[
        query("userId", NAME, "Only events of this user."),
        query("event", NAME, "Only events with this name."),
        query(
            "experimentId",
            {**NAME, "maxLength": TEXT_LENGTH},
            "Only events of this experiment. Send its id or its key: events that contain either "
            "are found. If no experiment has this id or key, events with exactly this "
            "`experimentId` are found.",
        ),
        query("variant", {**NAME, "maxLength": TEXT_LENGTH}, "Only events with this `variant` of `experimentId`."),
        _PROPERTIES,
        query("from", MOMENT, "Only events at or after this time or day."),
        query("to", MOMENT, "Only events up to this time, or up to the end of this day."),
        *paging(default=100),
    ],
    responses={
        200: answer(
            EventRecordSerializer(many=True),
            "The events.",
        ),
        **{(200, form.media_type): OpenApiTypes.STR for form in FORMS.values()},
        **errors(ErrorCode.RATE_LIMITED),
    },
)
