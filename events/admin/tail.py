"""The live tail of the list of events: what has arrived since the page asked last, as JSON."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, JsonResponse

from config.admin.current_environment import check_environment, current_environment
from config.admin.template_filters import address_of_user
from config.database.commit_order import is_position
from config.errors import DomainError
from events.admin.named import address_of, address_of_event
from events.admin.properties import describe_properties
from events.models import Event
from events.queries.tail import Wanted, read_arrivals

FOLLOWED = ("event", "userId", "experimentId", "variant")
"""The parameters of the list that the tail knows. A list that is limited by others is not followed."""


def answer_arrivals(request: HttpRequest) -> JsonResponse:
    """Answer the events since the position in `after`, or without it only the current position."""
    after = request.GET.get("after", "")
    if after and not is_position(after):
        return _refuse(400, "after: Must be the position of the last answer.")
    values = {name: request.GET.get(name, "") for name in FOLLOWED}
    for name, value in values.items():
        if "\0" in value:
            return _refuse(400, f"{name}: Must not contain U+0000.")
    try:
        check_environment(request, request.GET.get("environment"))
    except DomainError as error:
        return _refuse(412, error.message)
    wanted = Wanted(values["event"], values["userId"], values["experimentId"], values["variant"])
    arrivals = read_arrivals(current_environment(request), wanted, after or None)
    events = [_describe(event) for event in arrivals.events]
    return JsonResponse({"position": arrivals.position, "events": events, "hasMore": arrivals.has_more})


def _describe(event: Event) -> dict[str, Any]:
    return {
        "id": str(event.pk),
        "address": address_of(event),
        "timestamp": event.timestamp.isoformat(),
        "event": event.name,
        "eventAddress": address_of_event(event.name),
        "userId": event.user_id,
        "userAddress": address_of_user(event.user_id),
        "details": " · ".join(filter(None, (event.experiment, event.variant, describe_properties(event.properties)))),
    }


def _refuse(status: int, message: str) -> JsonResponse:
    return JsonResponse({"error": message}, status=status)
