"""What one user did, the newest first: events, with the exposures between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from operator import attrgetter
from uuid import UUID

from django.urls import reverse

from config.admin.template_filters import format_local
from config.database.expressions import after
from config.models import Environment
from config.timestamps import format_timestamp, parse_timestamp
from events.admin.descriptions import describe_properties
from events.admin.name_page import address_of
from events.models import Event
from experiments.models import Exposure

_A_PAGE = 25
_ORDER = ("-timestamp", "-id")
Cursor = tuple[datetime, UUID]


@dataclass(frozen=True, slots=True)
class Entry:
    """An event, or an exposure to a variant of an experiment. `address` is that of its page."""

    at: datetime
    name: str
    details: str
    address: str
    is_exposure: bool


@dataclass(frozen=True, slots=True)
class Day:
    """The entries of a day, in the time zone of the admin."""

    name: str
    entries: Sequence[Entry]


@dataclass(frozen=True, slots=True)
class Timeline:
    """A page of entries. `older` is the cursor of the next page; it is empty if there are no older events."""

    days: Sequence[Day]
    older: str
    is_first: bool

    @property
    def newest(self) -> datetime | None:
        """Return the time of the newest entry of all; None on later pages, and without entries."""
        return self.days[0].entries[0].at if self.days and self.is_first else None


def read_timeline(
    environment: Environment, user_id: str, cursor: str, exposures: Sequence[Exposure], names: Mapping[UUID, str]
) -> Timeline:
    """Return a page of events of a user, with one query, and the exposures of that time.

    `names` has the keys of experiments. An invalid cursor leads to the first page.
    """
    before = _parse(cursor)
    events = Event.objects.filter(environment=environment, user_id=user_id).order_by(*_ORDER)
    if before is not None:
        events = events.filter(after(_ORDER, before))
    read = list(events[: _A_PAGE + 1])
    shown, has_more = read[:_A_PAGE], len(read) > _A_PAGE
    entries = [_event(event) for event in shown]
    entries += [
        _exposure(exposure, names[exposure.experiment_id])
        for exposure in exposures
        if (before is None or exposure.exposed_at <= before[0])
        and (not has_more or exposure.exposed_at > shown[-1].timestamp)
    ]
    entries.sort(key=attrgetter("at"), reverse=True)
    older = f"{format_timestamp(shown[-1].timestamp)} {shown[-1].pk}" if has_more else ""
    return Timeline(_by_day(entries), older, before is None)


def _event(event: Event) -> Entry:
    shown = (event.experiment, event.variant, describe_properties(event.properties))
    return Entry(event.timestamp, event.name, " · ".join(filter(None, shown)), address_of(event), False)


def _exposure(exposure: Exposure, experiment: str) -> Entry:
    address = reverse("admin:experiments_experiment_change", args=[exposure.experiment_id])
    return Entry(exposure.exposed_at, experiment, f"exposed to {exposure.variant}", address, True)


def _by_day(entries: Sequence[Entry]) -> list[Day]:
    days = groupby(entries, key=lambda entry: format_local(entry.at, "l, j F Y"))
    return [Day(day, list(group)) for day, group in days]


def _parse(cursor: str) -> Cursor | None:
    moment, _, pk = cursor.partition(" ")
    try:
        return (parse_timestamp(moment), UUID(pk)) if cursor else None
    except ValueError:
        return None
