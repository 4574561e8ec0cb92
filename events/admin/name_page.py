"""The page of all events of one name: their number by hour, their properties, and the metrics that use them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote

from django.dispatch import Signal
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from config.admin.current_environment import current_environment
from config.database.engines import is_distributed
from config.slugs import NAME_LENGTH
from events.admin.descriptions import STOPPED_RULE, describe_stopped, shorten_value
from events.admin.hourly_chart import read_hourly_chart
from events.counts.stopped import stopped_events
from events.models import Event
from events.queries import SeenProperty, newest_events

SPAN = timedelta(days=7)
PAGE = "admin:events_event_named"

asking_for_uses = Signal()
"""Sent with the `request` and the `name` of an event, because only `experiments` knows metrics.

A receiver returns an `EventUse` for each of its objects that reads events of this name.
"""


@dataclass(frozen=True, slots=True)
class EventUse:
    """A metric or an experiment that reads events of a name: its key, the address of its page, and what it does."""

    key: str
    address: str
    words: str


@dataclass(frozen=True, slots=True)
class ShownProperty:
    """A property in words."""

    name: str
    kind: str
    share: str
    examples: str


def address_of(event: Event) -> str:
    """Return the address of the page of one event. On Citus, users may share ids, so it names the user, too."""
    address = reverse("admin:events_event_change", args=[event.pk])
    return f"{address}?userId={quote(event.user_id, safe='')}" if is_distributed() else address


def address_of_event(name: str) -> str:
    """Return the address of the page. The name is in the query, because paths cannot carry names such as `..`."""
    return f"{reverse(PAGE)}?event={quote(name, safe='')}"


def link_to_event(name: str) -> SafeString:
    return format_html('<a class="hy-user" href="{}">{}</a>', address_of_event(name), name)


def refuse_name(name: str) -> str:
    """Say why no event can have this name; empty if one can."""
    if not name:
        return "event: Name an event."
    if len(name) > NAME_LENGTH:
        return f"event: A name has at most {NAME_LENGTH} characters. This one has {len(name):,}."
    return "event: A name cannot contain this character: U+0000." if "\0" in name else ""


def page_context(request: HttpRequest, name: str, now: datetime) -> dict[str, Any]:
    """Return what the page shows, with one query each for the counts, the silence and the newest events."""
    environment = current_environment(request)
    newest = newest_events(environment, name)
    return {
        "title": "Event",
        "name": name,
        "chart": read_hourly_chart(environment, now, SPAN, name=name),
        "stopped": describe_stopped(stopped_events(environment, [name], now), environment.name),
        "rule": STOPPED_RULE,
        "newest": newest,
        "properties": [_shown(seen) for seen in newest.properties],
        "uses": _uses(request, name),
    }


def _uses(request: HttpRequest, name: str) -> Sequence[EventUse]:
    answers: Iterable[tuple[object, Any]] = asking_for_uses.send(sender=Event, request=request, name=name)
    return [use for _, answer in answers for use in answer]


def _shown(seen: SeenProperty) -> ShownProperty:
    percent = 100 * seen.share
    share = "< 1 %" if percent < 1 else f"{percent:.0f} %"
    return ShownProperty(seen.name, seen.kind, share, ", ".join(shorten_value(value) for value in seen.examples))
