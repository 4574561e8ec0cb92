"""How lists of flags and segments are narrowed."""

from __future__ import annotations

from typing import Any

import django_filters
from django.db.models import Q

from config.api.filters import SwitchFilter, TextFilter
from config.slugs import NAME_LENGTH
from flags.models import TAG_LENGTH, Flag, FlagQuerySet, Segment, SegmentQuerySet
from flags.usage.staleness import not_stale, stale, with_stale_reasons


class FlagFilter(django_filters.FilterSet):
    enabled = SwitchFilter(field_name="enabled", label="Only flags that are on, or off, in this environment.")
    search = TextFilter(method="search_text", label="Part of the key or the description, in any case.")
    tag = TextFilter(method="choose_tag", max_length=TAG_LENGTH, label="Only flags with exactly this tag.")
    owner = TextFilter(field_name="owner", max_length=NAME_LENGTH, label="Only flags of exactly this owner.")
    archived = SwitchFilter(method="choose_archived", label="Only archived flags, or, as without it, only others.")
    expired = SwitchFilter(method="choose_expired", label="Only flags that should be gone by now, or only others.")
    stale = SwitchFilter(method="choose_stale", label="Only flags that have had their day, or only others.")

    class Meta:
        model = Flag
        fields = ()

    def filter_queryset(self, queryset: FlagQuerySet) -> Any:
        asked_for = self.form.cleaned_data["archived"] is not None
        return super().filter_queryset(queryset if asked_for else queryset.current())

    def search_text(self, flags: FlagQuerySet, _name: str, text: str) -> FlagQuerySet:
        return flags.filter(_mentions(text))

    def choose_tag(self, flags: FlagQuerySet, _name: str, tag: str) -> FlagQuerySet:
        return flags.tagged(tag)

    def choose_archived(self, flags: FlagQuerySet, _name: str, is_archived: bool) -> FlagQuerySet:
        return flags.archived() if is_archived else flags.current()

    def choose_expired(self, flags: FlagQuerySet, _name: str, is_expired: bool) -> FlagQuerySet:
        now = self.request.now
        return flags.expired(now) if is_expired else flags.unexpired(now)

    def choose_stale(self, flags: FlagQuerySet, _name: str, is_stale: bool) -> FlagQuerySet:
        judged = with_stale_reasons(flags, self.request.auth.environment, self.request.now)
        return stale(judged) if is_stale else not_stale(judged)


class SegmentFilter(django_filters.FilterSet):
    search = TextFilter(method="search_text", label="Part of the key or the description, in any case.")

    class Meta:
        model = Segment
        fields = ()

    def search_text(self, segments: SegmentQuerySet, _name: str, text: str) -> SegmentQuerySet:
        return segments.filter(_mentions(text))


def _mentions(text: str) -> Q:
    return Q(key__icontains=text) | Q(description__icontains=text)
