"""How lists of flags are narrowed."""

from __future__ import annotations

import django_filters
from django.db.models import Q

from config.api.filters import SwitchFilter, TextFilter
from flags.models import Flag, FlagQuerySet


class FlagFilter(django_filters.FilterSet):
    enabled = SwitchFilter(field_name="enabled", label="Only flags that are on, or off, in this environment.")
    search = TextFilter(method="search_text", label="Part of the key or the description, in any case.")

    class Meta:
        model = Flag
        fields = ()

    def search_text(self, flags: FlagQuerySet, _name: str, text: str) -> FlagQuerySet:
        return flags.filter(Q(key__icontains=text) | Q(description__icontains=text))
