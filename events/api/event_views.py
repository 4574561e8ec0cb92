"""The operations of /v1/events: storing events, one or many, and reading them as a list or as a file."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from typing import Any

from django.conf import settings
from django.http import HttpRequest, StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.parsers import BaseParser
from rest_framework.request import Request
from rest_framework.response import Response

from config import snapshot
from config.api.bodies import BytesParser
from config.api.failures import details
from config.api.filters import StrictFilterBackend, narrowed, refuse_parameters
from config.api.idempotency import idempotent
from config.api.limits import charge_events
from config.api.pagination import KeysetPagination
from config.api.permissions import Access
from config.api.renderers import envelope, preferred
from config.api.schema import NAME, DetailsField, answer, operation
from config.api.serializers import ArrayField, TimestampField
from config.api.views import ApiViewSet
from config.database.replica import ReplicaReads
from config.errors import Detail, DetailCode, DomainError, ErrorCode, ValidationFailed
from config.models import Environment, Scope
from config.monitoring import metrics
from config.serving.fast_lane import Call, Failed, Fast, Reply
from events.api.filters import MAX_PROPERTIES, PROPERTY, TEXT_LENGTH, EventFilter
from events.api.inputs import MAX_EVENTS, EventSerializer, Rejected, read_batch, read_event
from events.exports import FORMATS, Format, pages, write
from events.models import Event, EventQuerySet, newest_first
from events.recording import NewEvent, Outcome, from_client, record, record_each, record_one

_PROPERTIES = OpenApiParameter(
    "properties",
    {
        "type": "object",
        "propertyNames": {"pattern": rf"^{re.escape(PROPERTY)}[^\u0000]*$"},
        "additionalProperties": {**NAME, "maxLength": TEXT_LENGTH},
        "maxProperties": MAX_PROPERTIES,
    },
    OpenApiParameter.QUERY,
    style="form",
    explode=True,
    description="`properties.<name>=<value>`, once or several times: only events whose property "
    "has this value. The value is a text, or the number, `true`, `false` or `null` that the text "
    "spells. The name must be exactly the same, including dots. Requires `event` or `userId`.",
)

STATUSES = ("accepted", "duplicate")
_REJECTED = "rejected"
CONFLICT = Detail("id", DetailCode.ID_CONFLICT, "Another event already has this id; use a new one.")


def track(calls: Sequence[Call]) -> list[Reply | Failed | None]:
    """Record the events of several requests of the fast lane together, each of them one event."""
    snapshot.require_current_keys()
    events = [_read(call) for call in calls]
    valid = [(event, call.caller.environment) for event, call in zip(events, calls, strict=True) if event is not None]
    recorded = _record(valid, calls[0]) if valid else []
    # Django finds the same conflicts, and counts them.
    count_outcomes([outcome for outcome in recorded if outcome in (Outcome.ACCEPTED, Outcome.DUPLICATE)])
    outcomes = iter(recorded)
    return [None if event is None else _reply(event, next(outcomes)) for event in events]


def _read(call: Call) -> NewEvent | None:
    try:
        call.require_same_caller()
        event = read_event(call.body, received_at=call.now)
        return from_client(event) if call.caller.scope is Scope.CLIENT else event
    except Exception:  # Django meets the same exception, and answers it
        return None


def _record(events: Sequence[tuple[NewEvent, Environment]], call: Call) -> Sequence[Outcome | Exception]:
    try:
        with call.using_database():
            return record_each(events)
    except Exception as error:
        return [error] * len(events)


def _reply(event: NewEvent, outcome: Outcome | Exception) -> Reply | Failed | None:
    if isinstance(outcome, Exception):  # if it was stored after all, Django would store it again, with another id
        return Failed(outcome)
    if outcome is Outcome.CONFLICT:
        return None  # Django finds the same, and explains it
    return Reply(envelope(acknowledgement(event, outcome)), status=202)


class BatchSerializer(serializers.Serializer[Any]):
    """Events that are stored together. Each is checked separately."""

    events = ArrayField(child=EventSerializer(), min_length=1, max_length=MAX_EVENTS)


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
    status = serializers.ChoiceField(choices=(*STATUSES, _REJECTED))
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


_FORMAT_OF_MEDIA_TYPE = {file_format.media_type: file_format for file_format in FORMATS.values()}

# An export occupies a thread as long as its client reads; the other threads serve other requests.
_places = threading.BoundedSemaphore(max(1, settings.THREADS // 2))


def preferred_format(request: HttpRequest) -> Format | None:
    """Return the format of file that a request prefers to JSON, or None."""
    media_type = preferred(request, _FORMAT_OF_MEDIA_TYPE)
    return None if media_type is None else _FORMAT_OF_MEDIA_TYPE[media_type]


class ExportAnswer(StreamingHttpResponse):
    """A file that is sent while it is written, or only its headers. Raises DomainError `rate_limited`."""

    def __init__(self, events: EventQuerySet, file_format: Format, *, is_whole: bool) -> None:
        charset = "; charset=utf-8" if file_format.media_type.startswith("text/") else ""
        pieces = _Pieces(events, file_format) if is_whole else ()
        super().__init__(pieces, content_type=file_format.media_type + charset)


class _Pieces(Iterator[bytes]):
    """The pieces of a file. It takes one of the process's places for exports until it is closed.

    The first records are read before the first byte is sent, so that an error of the database still gets its usual
    answer.
    """

    def __init__(self, events: EventQuerySet, file_format: Format) -> None:
        if not _places.acquire(blocking=False):
            message = "The maximum number of exports is in progress; try again when one has ended."
            raise DomainError(ErrorCode.RATE_LIMITED, message)
        self._is_open = True
        chunks = pages(events)
        try:
            first = next(chunks, ())
        except BaseException:
            self.close()
            raise
        self._pieces = write(chain((first,), chunks), file_format)

    def __next__(self) -> bytes:
        return next(self._pieces)

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            _places.release()


class EventPagination(KeysetPagination):
    default_limit = 100

    def paginate_queryset(self, queryset: Any, request: Request, view: Any = None) -> list[Any]:
        self.ordering = newest_first()
        return super().paginate_queryset(queryset, request, view)


@extend_schema(tags=["Events"])
class EventViewSet(ApiViewSet):
    access = {
        "create": Access(Scope.CLIENT, "events.add_event"),
        "batch": Access(Scope.CLIENT, "events.add_event"),
        "list": Access(Scope.SERVER, "events.view_event"),
    }
    fast_lane = {"create": Fast(together=track)}
    serializer_class = EventRecordSerializer
    pagination_class = EventPagination
    filter_backends = (StrictFilterBackend,)
    filterset_class = EventFilter

    def get_parsers(self) -> list[BaseParser]:
        return [BytesParser()]

    def get_queryset(self) -> EventQuerySet:
        return Event.objects.filter(environment=self.environment)

    @operation(
        "query_events",
        "Query events",
        description="Returns events, newest first, by timestamp and then id. The `Link` header names "
        "the next page. With `Accept: application/x-ndjson` or `text/csv`, the answer is one file "
        "with all events that match the filters, sent while it is written. Such a request must not "
        "have `limit` or `cursor`. A file that breaks off ends within a record.",
        parameters=[_PROPERTIES],
        responses={
            200: answer(EventRecordSerializer(many=True), "The events."),
            **{(200, file_format.media_type): OpenApiTypes.STR for file_format in FORMATS.values()},
        },
    )
    def list(self, request: Request) -> Response | ExportAnswer:
        file_format = preferred_format(request._request)
        if file_format is not None:
            return self._export(request, file_format)
        return ReplicaReads(Event).read(lambda: self.page(request))

    def _export(self, request: Request, file_format: Format) -> ExportAnswer:
        self.refuse_body(request)
        events = narrowed(request, EventFilter, self.get_queryset())
        return ExportAnswer(events, file_format, is_whole=request.method != "HEAD")

    @operation(
        "track_event",
        "Track an event",
        description="`accepted` means that the event is committed to the database. An event that has "
        "an `id` can be sent again: the answer is then `duplicate`, and the event is stored once.",
        request=EventSerializer,
        responses={202: answer(AcknowledgementSerializer, "The event is stored.")},
    )
    @idempotent
    def create(self, request: Request) -> Response:
        refuse_parameters(request)
        with counting_refusal():
            event = read_event(_body(request), received_at=self.now)
        outcome = record_one(from_client(event) if self._is_client else event, self.environment)
        count_outcomes([outcome])
        if outcome is Outcome.CONFLICT:
            raise ValidationFailed([CONFLICT])
        return Response(acknowledgement(event, outcome), status=202)

    @operation(
        "batch_events",
        "Track a batch of events",
        description="Send 1 to 1,000 events. The answer has an entry for each, in the same order. An "
        "invalid event is `rejected` with its error, and the others are stored. If all events are "
        "invalid, the answer is 400, and its `details` name `events[i].field`.",
        request=BatchSerializer,
        responses={202: answer(BatchAcknowledgementSerializer(many=True), "The outcome of each event.")},
        errors=[ErrorCode.BATCH_TOO_LARGE],
        examples=[
            OpenApiExample("A batch", value={"events": [{"event": "purchase", "userId": "ada"}]}, request_only=True)
        ],
    )
    @idempotent
    def batch(self, request: Request) -> Response:
        refuse_parameters(request)
        read = read_batch(_body(request), received_at=self.now)
        charge_events(request.META, self.caller, len(read))
        events = [event for event in read if isinstance(event, NewEvent)]
        recorded = record([*map(from_client, events)] if self._is_client else events, self.environment)
        count_outcomes(recorded, rejected=len(read) - len(events))
        outcomes = iter(recorded)
        results = [event if isinstance(event, Rejected) else _result(event, next(outcomes)) for event in read]
        rejected = {index: result for index, result in enumerate(results) if isinstance(result, Rejected)}
        if len(rejected) == len(results):
            raise ValidationFailed(_located(rejected))
        answers = [_rejection(result) if isinstance(result, Rejected) else result for result in results]
        return Response(answers, status=202)

    @property
    def _is_client(self) -> bool:
        return self.caller.scope is Scope.CLIENT


def _body(request: Request) -> bytes:
    # Without a body DRF calls no parser.
    return request.data if isinstance(request.data, bytes) else b"{}"


def _result(event: NewEvent, outcome: Outcome) -> dict[str, Any] | Rejected:
    return Rejected(str(event.id), [CONFLICT]) if outcome is Outcome.CONFLICT else acknowledgement(event, outcome)


def count_outcomes(outcomes: Sequence[Outcome], *, rejected: int = 0) -> None:
    """Count the events of a request by what is answered of them."""
    by_outcome = Counter(outcomes)
    rejected += by_outcome.pop(Outcome.CONFLICT, 0)
    for status, number in (*by_outcome.items(), (_REJECTED, rejected)):
        if number:
            metrics.events.add(number, status)


@contextmanager
def counting_refusal() -> Iterator[None]:
    """Count one event that is refused as it is read."""
    try:
        yield
    except DomainError:
        metrics.events.add(1, _REJECTED)
        raise


def acknowledgement(event: NewEvent, outcome: Outcome) -> dict[str, Any]:
    return {"id": event.id, "status": outcome}


def _rejection(event: Rejected) -> dict[str, Any]:
    failure = ValidationFailed(event.details)
    error = {"code": failure.code, "message": failure.message, "details": details(failure.details)}
    return {"id": event.id, "status": _REJECTED, "error": error}


def _located(rejected: Mapping[int, Rejected]) -> list[Detail]:
    return [
        replace(detail, field=f"events[{index}].{detail.field}" if detail.field else f"events[{index}]")
        for index, event in rejected.items()
        for detail in event.details
    ]
