"""The filters of the list of flags."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest

from config.admin.current_environment import current_environment
from config.admin.filters import ChoiceFilter, MenuFilter
from flags.explanations.change_words import TYPES
from flags.models import Flag, FlagTag
from flags.snapshot import configuration
from flags.usage.staleness import stale

_ON_OR_OFF = "switch"
# No experiment has these keys, because keys begin with a letter or a digit.
_BY_ANY, _BY_NONE = "=any", "=none"


class EnabledFilter(ChoiceFilter):
    title = "state"
    parameter_name = "enabled"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("true", "On"), ("false", "Off")]

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        return queryset.filter(enabled=self.value() == "true") if self.value() else queryset


class ShelfFilter(ChoiceFilter):
    """Flags in use, stale flags, or archived flags."""

    title = "shelf"
    parameter_name = "shelf"
    otherwise = "In use"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("stale", "Stale"), ("archived", "Archived")]

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        if self.value() == "archived":
            return queryset.archived()
        return stale(queryset) if self.value() == "stale" else queryset.current()


class TagFilter(MenuFilter):
    title = "tag"
    parameter_name = "tag"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        names = FlagTag.objects.order_by("name").values_list("name", flat=True).distinct()
        return [(name, name) for name in names]

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        tag = self.value()
        return queryset.tagged(tag) if tag else queryset


class OwnerFilter(MenuFilter):
    title = "owner"
    parameter_name = "owner"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        names = Flag.objects.exclude(owner="").order_by("owner").values_list("owner", flat=True).distinct()
        return [(name, name) for name in names]

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        return queryset.filter(owner=self.value()) if self.value() else queryset


class TypeFilter(MenuFilter):
    title = "type"
    parameter_name = "type"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(_ON_OR_OFF, "On or off only"), *((name, _capitalise(words)) for name, words in TYPES.items())]

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        chosen = self.value()
        return queryset.filter(type="" if chosen == _ON_OR_OFF else chosen) if chosen else queryset


class ExperimentFilter(MenuFilter):
    """Flags by the experiment that drives them here. The menu is hidden if no experiment drives a flag."""

    title = "experiment"
    parameter_name = "experiment"
    otherwise = "With or without"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        flags = configuration(current_environment(request).key).flags.values()
        self.drivers = {flag.key: flag.driver for flag in flags if flag.driver}
        if not self.drivers:
            return []
        experiments = sorted(set(self.drivers.values()))
        return [(_BY_ANY, "With any"), (_BY_NONE, "Without"), *((key, key) for key in experiments)]

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        chosen = self.value()
        if chosen == _BY_NONE:
            return queryset.exclude(key__in=self.drivers)
        driven = [key for key, driver in self.drivers.items() if chosen in (driver, _BY_ANY)]
        return queryset.filter(key__in=driven) if chosen else queryset


def _capitalise(words: str) -> str:
    return words[0].upper() + words[1:]  # `capitalize` would make JSON lower case
