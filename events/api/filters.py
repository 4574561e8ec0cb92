"""The filters of event queries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import django_filters
from django import forms

from config.api.filters import MomentFilter, TextFilter
from config.models import Environment
from events.expressions import PropertyIs
from events.models import VARIANT_LENGTH, Event, EventQuerySet
from events.properties import EXPERIMENT_ID, VARIANT
from events.queries import filter_by_experiment

TEXT_LENGTH = 2000
PROPERTY = "properties."
MAX_PROPERTIES = 10


class EventForm(forms.Form):
    """Refuses combinations of parameters for which no index finds the events."""

    def clean(self) -> dict[str, Any]:
        if self._has(VARIANT) and not self._has(EXPERIMENT_ID):
            self.add_error(VARIANT, "Requires `experimentId`, too.")
        properties = [name for name in self.fields if name.startswith(PROPERTY)]
        for name in properties[MAX_PROPERTIES:]:
            self.add_error(name, f"Send at most {MAX_PROPERTIES} properties.")
        if properties and not (self._has("event") or self._has("userId")):
            self.add_error(properties[0], "Requires `event` or `userId`, too.")
        return self.cleaned_data

    def _has(self, name: str) -> bool:
        return bool(self.data.get(name))


class PropertyFilter(TextFilter):
    """`properties.<name>`: the property with exactly this name, including dots."""

    def filter(self, events: EventQuerySet, value: str) -> EventQuerySet:
        return events.filter(PropertyIs(self.field_name, value)) if value else events


class EventFilter(django_filters.FilterSet):
    userId = TextFilter(field_name="user_id", label="Only events of this user.")
    event = TextFilter(field_name="name", label="Only events with this name.")
    experimentId = TextFilter(
        method="name_experiment",
        max_length=TEXT_LENGTH,
        label="Only events of this experiment. Send its id or its key: events that contain either "
        "are found. If no experiment has this id or key, events with exactly this "
        "`experimentId` are found.",
    )
    variant = TextFilter(
        method="name_variant", max_length=TEXT_LENGTH, label="Only events with this `variant` of `experimentId`."
    )
    to = MomentFilter(
        field_name="timestamp",
        lookup_expr="lte",
        end_of_day=True,
        label="Only events up to this time, or up to the end of this day.",
    )

    patterns = (f"{PROPERTY}<name>",)
    """Parameters whose names are not fixed."""

    class Meta:
        model = Event
        fields = ()
        form = EventForm

    def __init__(
        self,
        data: Mapping[str, Any] | None = None,
        *args: Any,
        environment: Environment | None = None,
        **options: Any,
    ) -> None:
        super().__init__(data, *args, **options)
        self.environment = environment or self.request.auth.environment
        for name in data or ():
            if name not in self.base_filters and self.takes(name):
                self.filters[name] = PropertyFilter(field_name=name.removeprefix(PROPERTY), max_length=TEXT_LENGTH)

    @classmethod
    def takes(cls, name: str) -> bool:
        """Return whether a parameter with this name is a filter."""
        # No property has a NUL in its name, and PostgreSQL refuses it.
        return name in cls.base_filters or (name.startswith(PROPERTY) and "\0" not in name)

    def name_experiment(self, events: EventQuerySet, _name: str, reference: str) -> EventQuerySet:
        return filter_by_experiment(events, self.environment, reference)

    def name_variant(self, events: EventQuerySet, _name: str, key: str) -> EventQuerySet:
        with_variant = events.filter(variant=key[:VARIANT_LENGTH]).exclude(variant="")
        return with_variant if len(key) < VARIANT_LENGTH else with_variant.filter(properties__variant=key)


# A keyword of Python cannot name an attribute.
EventFilter.base_filters["from"] = MomentFilter(
    field_name="timestamp", lookup_expr="gte", label="Only events at or after this time or day."
)
