"""How the OpenAPI document describes the operations of /v1/events."""

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
    description="`accepted` means committed to the database. An event with an `id` of yours may be sent again: it is "
    "answered `duplicate` and stored once.",
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
    description="1 to 1,000 events, acknowledged in order. A bad event is `rejected` with its error and the others "
    "are stored; if none is acceptable the answer is 400, with `details` naming `events[i].field`.",
    parameters=IDEMPOTENCY,
    request=BatchSerializer,
    responses={
        202: answer(BatchAcknowledgementSerializer(many=True), "What became of each event."),
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
    description="`properties.<name>=<value>`, one or several: only events whose property of exactly that name, dots "
    "and all, is that text, or the number, `true`, `false` or `null` that the text spells. Needs `event` or `userId`.",
)

list_events = extend_schema(
    operation_id="query_events",
    summary="Query events",
    description="Newest first, by timestamp and then id. The `Link` header names the next page. With `Accept: "
    "application/x-ndjson` or `text/csv` all that the filters find is answered as one file, while it is written; "
    "`limit` and `cursor` have no place there. One that breaks off ends within a record.",
    parameters=[
        query("userId", NAME, "Only events of this user."),
        query("event", NAME, "Only events of this name."),
        query(
            "experimentId",
            {**NAME, "maxLength": TEXT_LENGTH},
            "Only events that name this experiment, by its id or its key, whichever of the two you give. A name that "
            "no experiment has finds the events whose `experimentId` is exactly that.",
        ),
        query("variant", {**NAME, "maxLength": TEXT_LENGTH}, "Only events with this `variant` of `experimentId`."),
        _PROPERTIES,
        query("from", MOMENT, "From this moment or day on."),
        query("to", MOMENT, "Until this moment, or the end of this day."),
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
