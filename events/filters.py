"""How a query of events is narrowed."""

from __future__ import annotations

import django_filters

from config.api.filters import MomentFilter, TextFilter
from events.models import EXPERIMENT_LENGTH, Event, EventQuerySet


class EventFilter(django_filters.FilterSet):
    userId = TextFilter(field_name="user_id", label="Of this user.")
    event = TextFilter(field_name="name", label="Of this name.")
    experimentId = TextFilter(method="name_experiment", max_length=2000, label="Whose `experimentId` is exactly this.")
    to = MomentFilter(field_name="timestamp", lookup_expr="lte", end_of_day=True, label="Until this moment or day.")

    class Meta:
        model = Event
        fields = ()

    def name_experiment(self, events: EventQuerySet, _name: str, reference: str) -> EventQuerySet:
        found = events.naming(reference[:EXPERIMENT_LENGTH])
        return found if len(reference) < EXPERIMENT_LENGTH else found.filter(properties__experimentId=reference)


# A word of Python cannot name an attribute.
EventFilter.base_filters["from"] = MomentFilter(
    field_name="timestamp", lookup_expr="gte", label="From this moment or day on."
)
