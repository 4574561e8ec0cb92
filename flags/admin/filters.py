"""What the list of flags can be narrowed to."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest

from config.admin.site import ChoiceFilter, MenuFilter
from flags.models import Flag, FlagTag
from flags.usage.staleness import stale


class EnabledFilter(ChoiceFilter):
    title = "state"
    parameter_name = "enabled"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("true", "On"), ("false", "Off")]

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        return queryset.filter(enabled=self.value() == "true") if self.value() else queryset


class ShelfFilter(ChoiceFilter):
    """Archived flags are out of sight unless they are asked for."""

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
