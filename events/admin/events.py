"""Events in the admin.

They are read-only, and the list does not count them, because there may be very many.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any
from urllib.parse import urlencode

from django.contrib import admin
from django.core.exceptions import PermissionDenied, ValidationError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.template.response import SimpleTemplateResponse, TemplateResponse
from django.urls import path
from django.utils import timezone
from django.utils.functional import cached_property
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from unfold.admin import ModelAdmin
from unfold.paginator import InfinitePaginator

from config.admin.columns import column, time_cell
from config.admin.current_environment import check_environment, current_environment
from config.admin.filters import IgnoresUnknownParameters
from config.admin.site import ListPage, ReadOnly
from config.admin.template_filters import address_of_user, link_to_user
from config.database.commit_order import is_live_watermark
from config.database.replica import ReplicaReads
from config.errors import DomainError
from events.admin.descriptions import describe_properties, value_text
from events.admin.hourly_chart import read_hourly_chart
from events.admin.name_page import address_of, address_of_event, link_to_event, page_context, refuse_name
from events.api.filters import PROPERTY, EventFilter
from events.models import Event, EventCount, EventQuerySet, newest_first
from events.queries import TailFilter, read_tail

_PAGE_SIZE = 50
_MAX_PAGES = 200
_SPAN = timedelta(hours=48)
_MAX_NAMES = 12

_FIELDS = ("linked_name", "shown_user", "shown_timestamp", "shown_receipt", "shown_experiment", "shown_variant")
_LABELS = {
    "userId": "User",
    "event": "Event",
    "experimentId": "Experiment",
    "variant": "Variant",
    "from": "From, UTC",
    "to": "To, UTC",
}
_TIMES = ("from", "to")
_FOLLOWED = ("event", "userId", "experimentId", "variant")
"""The parameters of the list that the tail knows. A list that is limited by others is not followed."""


class NewestPaginator(InfinitePaginator):
    """Pages without a COUNT query.

    Their number is limited; older events are found by their time.
    """

    @cached_property
    def count(self) -> int:
        return _PAGE_SIZE * _MAX_PAGES


class EventList(ListPage):
    """A list with the parameters, comparisons and error messages of the API's event query."""

    def get_filters_params(self, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        filters = super().get_filters_params(params)
        return {name: value for name, value in filters.items() if not EventFilter.takes(name)}

    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> Any:
        events = super().get_queryset(request, exclude_parameters)
        environment = current_environment(request)
        filterset = EventFilter(request.GET, queryset=events, environment=environment)
        properties = {name: name for name in request.GET if name.startswith(PROPERTY)}
        self.search_bar = [
            {
                "name": name,
                "label": label,
                "value": request.GET.get(name, ""),
                "type": "date" if name in _TIMES and len(request.GET.get(name, "")) in (0, 10) else "text",
                "is_moment": name in _TIMES,
                "errors": filterset.errors.get(name),
            }
            for name, label in {**_LABELS, **properties}.items()
        ]
        self.is_searched = any(field["value"] for field in self.search_bar)
        # Counts are known by name alone, and the chart belongs to the newest page.
        parameters = {name for name, value in request.GET.items() if value}
        if filterset.is_valid() and parameters <= {*_FOLLOWED}:
            values = {name: value for name, value in request.GET.items() if value}
            self.followed = urlencode({"environment": environment.key, **values})
        if filterset.is_valid() and parameters <= {"event"}:
            self.event = request.GET.get("event") or None
            self.chart: Any = partial(
                read_hourly_chart, environment, timezone.now(), _SPAN, name=self.event, max_names=_MAX_NAMES
            )
        return filterset.qs if filterset.is_valid() else filterset.queryset.none()

    def url_for_result(self, result: Event) -> str:
        return address_of(result)


def _read_page(view: Callable[[], HttpResponse]) -> HttpResponse:
    """Answer a page with its events and counts from the replica, if there is one that is current.

    Templates read them, so the page is rendered here.
    """

    def render() -> HttpResponse:
        response = view()
        return response.render() if isinstance(response, SimpleTemplateResponse) else response

    return ReplicaReads(Event, EventCount).read(render)


def _tail_answer(request: HttpRequest) -> JsonResponse:
    """Return the events since the position in `after`, or without it only the current position."""
    after = request.GET.get("after", "")
    if after and not is_live_watermark(after):
        return _refuse(400, "after: Must be the position of the last answer.")
    values = {name: request.GET.get(name, "") for name in _FOLLOWED}
    for name, value in values.items():
        if "\0" in value:
            return _refuse(400, f"{name}: Must not contain U+0000.")
    try:
        check_environment(request, request.GET.get("environment"))
    except DomainError as error:
        return _refuse(412, error.message)
    followed = TailFilter(values["event"], values["userId"], values["experimentId"], values["variant"])
    tail = read_tail(current_environment(request), followed, after or None)
    events = [_describe(event) for event in tail.events]
    return JsonResponse({"position": tail.watermark, "events": events, "hasMore": tail.has_more})


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


@admin.register(Event)
class EventAdmin(ReadOnly, IgnoresUnknownParameters, ModelAdmin):
    is_common = False
    list_display = (
        "shown_name",
        "shown_user",
        "shown_timestamp",
        "shown_properties",
        "shown_experiment",
        "shown_variant",
    )
    list_per_page = _PAGE_SIZE
    list_max_show_all = 0
    list_select_related = False
    sortable_by = ()
    actions = None
    paginator = NewestPaginator
    list_before_template = "admin/events/event/panel.html"
    show_full_result_count = False
    actions_detail_hide_default = True
    fields = (*_FIELDS, "pretty_properties", "id")
    readonly_fields = fields

    def get_queryset(self, request: HttpRequest) -> EventQuerySet:
        return Event.objects.filter(environment=current_environment(request))

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Event | None:
        """Return the event with this id of the user in the query, if it names one: on Citus, users may share an id."""
        with suppress(ValidationError):
            events = self.get_queryset(request).filter(pk=object_id)
            if user_id := request.GET.get("userId", "").replace("\0", ""):
                events = events.filter(user_id=user_id)
            return events.order_by("user_id").first()
        return None

    def get_ordering(self, request: HttpRequest) -> tuple[str, ...]:
        return newest_first()

    def lookup_allowed(self, lookup: str, value: Any, request: HttpRequest | None = None) -> bool:
        """Allow no lookups of columns. The parameters of the API filter the list, and each of them has an index."""
        return False

    def knows_parameter(self, request: HttpRequest, name: str) -> bool:
        return EventFilter.takes(name) or super().knows_parameter(request, name)

    def get_urls(self) -> list[Any]:
        own = (("named", self.named_view), ("tail", self.tail_view))
        urls = [path(f"{name}/", self.admin_site.admin_view(view), name=f"events_event_{name}") for name, view in own]
        return [*urls, *super().get_urls()]

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """Show the list, from the replica if there is one that is current."""
        return _read_page(partial(super().changelist_view, request, extra_context))

    def tail_view(self, request: HttpRequest) -> HttpResponse:
        """Answer the events that have arrived since the page asked last."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        return _tail_answer(request)

    def named_view(self, request: HttpRequest) -> HttpResponse:
        """Show all events of the name in the query."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        name = request.GET.get("event", "")
        return _read_page(partial(self._named_page, request, name, refuse_name(name)))

    def _named_page(self, request: HttpRequest, name: str, refusal: str) -> HttpResponse:
        context = {"title": "Event", "refusal": refusal} if refusal else page_context(request, name, timezone.now())
        request.current_app = self.admin_site.name  # as the admin's own views do
        shared = {**self.admin_site.each_context(request), "opts": self.opts, "model_admin": self}
        status = 400 if refusal else 200
        return TemplateResponse(request, "admin/events/event/named.html", {**shared, **context}, status=status)

    def get_changelist(self, request: HttpRequest, **options: Any) -> type[EventList]:
        return EventList

    @column("Event")
    def shown_name(self, event: Event) -> str:
        return event.name

    @column("Event")
    def linked_name(self, event: Event) -> SafeString:
        return link_to_event(event.name)

    @column("User")
    def shown_user(self, event: Event) -> SafeString:
        return link_to_user(event.user_id)

    @column("Timestamp")
    def shown_timestamp(self, event: Event) -> SafeString | None:
        return time_cell(event.timestamp)

    @column("Received")
    def shown_receipt(self, event: Event) -> SafeString | None:
        return time_cell(event.received_at)

    @column("Properties", empty_value="")
    def shown_properties(self, event: Event) -> str | None:
        return describe_properties(event.properties) or None

    @column("Experiment", empty_value="")
    def shown_experiment(self, event: Event) -> str | None:
        return event.experiment or None

    @column("Variant", empty_value="")
    def shown_variant(self, event: Event) -> str | None:
        return event.variant or None

    @column("Properties")
    def pretty_properties(self, event: Event) -> SafeString | None:
        """Return all of them, each value in full."""
        if not event.properties:
            return None
        pairs = [(name, value_text(value)) for name, value in event.properties.items()]
        return format_html('<dl class="hy-facts">{}</dl>', format_html_join("", "<dt>{}</dt><dd>{}</dd>", pairs))
