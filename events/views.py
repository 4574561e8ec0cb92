"""The /v1/events operations: parse, one call of the domain, serialise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.parsers import BaseParser
from rest_framework.request import Request
from rest_framework.response import Response

from config.api.bodies import Body, JSONParser, decode_stream, repetitions
from config.api.failures import details
from config.api.filters import StrictFilterBackend, refuse_parameters
from config.api.idempotency import idempotent
from config.api.pagination import KeysetPagination
from config.api.permissions import Access
from config.api.views import ApiViewSet
from config.errors import Detail, DetailCode, DomainError, ErrorCode, ValidationFailed
from config.models import Scope
from events import openapi
from events.filters import EventFilter
from events.ingest import Outcome, record
from events.inputs import Rejected, read_event, read_event_of_batch
from events.models import Event, EventQuerySet
from events.rows import NewEvent
from events.serializers import (
    MOST_EVENTS,
    EventRecordSerializer,
)

_CONFLICT = Detail("id", DetailCode.ID_CONFLICT, "This id belongs to another event already; give this one its own.")


class EventPagination(KeysetPagination):
    ordering = ("-timestamp", "-id")
    default_limit = 100


class EachEventParser(JSONParser):
    """JSON whose events are searched one by one later, so that one bad event does not spoil the batch."""

    def parse(self, stream: Any, media_type: str | None = None, context: Mapping[str, Any] | None = None) -> Any:
        return decode_stream(stream)


@extend_schema(tags=["Events"])
class EventViewSet(ApiViewSet):
    access = {
        "create": Access(Scope.CLIENT, "events.add_event"),
        "batch": Access(Scope.CLIENT, "events.add_event"),
        "list": Access(Scope.SERVER, "events.view_event"),
    }
    serializer_class = EventRecordSerializer
    pagination_class = EventPagination
    filter_backends = (StrictFilterBackend,)
    filterset_class = EventFilter

    def get_parsers(self) -> list[BaseParser]:
        return [EachEventParser()]

    def get_queryset(self) -> EventQuerySet:
        return Event.objects.filter(environment=self.environment)

    @openapi.list_events
    def list(self, request: Request) -> Response:
        return self.page(request)

    @openapi.create
    @idempotent
    def create(self, request: Request) -> Response:
        refuse_parameters(request)
        body = _body(request)
        event = read_event(body.value, is_suspect=body.is_suspect, at=self.now)
        [outcome] = record([event], self.environment)
        if outcome is Outcome.CONFLICT:
            raise ValidationFailed([_CONFLICT])
        return Response(_acknowledgement(event, outcome), status=202)

    @openapi.batch
    @idempotent
    def batch(self, request: Request) -> Response:
        refuse_parameters(request)
        body = _body(request)
        read = [read_event_of_batch(raw, is_suspect=body.is_suspect, at=self.now) for raw in _events_of(body.value)]
        outcomes = iter(record([event for event in read if isinstance(event, NewEvent)], self.environment))
        judged = [event if isinstance(event, Rejected) else _judge(event, next(outcomes)) for event in read]
        rejected = {at: event for at, event in enumerate(judged) if isinstance(event, Rejected)}
        if len(rejected) == len(judged):
            raise ValidationFailed(_located(rejected))
        return Response([_rejection(event) if isinstance(event, Rejected) else event for event in judged], status=202)


def _body(request: Request) -> Body:
    # Without a body DRF calls no parser.
    return request.data if isinstance(request.data, Body) else Body({}, is_suspect=False)


def _events_of(batch: Any) -> list[Any]:
    """The events of a batch. Raises with what is wrong with the batch itself."""
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
    if len(events) > MOST_EVENTS:
        message = f"Send at most {MOST_EVENTS:,} events in one batch; these are {len(events):,}."
        raise DomainError(ErrorCode.BATCH_TOO_LARGE, message)
    return events


def _judge(event: NewEvent, outcome: Outcome) -> dict[str, Any] | Rejected:
    return Rejected(str(event.id), [_CONFLICT]) if outcome is Outcome.CONFLICT else _acknowledgement(event, outcome)


def _acknowledgement(event: NewEvent, outcome: Outcome) -> dict[str, Any]:
    return {"id": event.id, "status": outcome}


def _rejection(event: Rejected) -> dict[str, Any]:
    failure = ValidationFailed(event.details)
    error = {"code": failure.code, "message": failure.message, "details": details(failure.details)}
    return {"id": event.id, "status": "rejected", "error": error}


def _located(rejected: Mapping[int, Rejected]) -> list[Detail]:
    return [
        replace(detail, field=f"events[{at}].{detail.field}" if detail.field else f"events[{at}]")
        for at, event in rejected.items()
        for detail in event.details
    ]
