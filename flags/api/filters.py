"""Filters of the lists of flags and segments. Their labels are descriptions in the OpenAPI document."""

from __future__ import annotations

from typing import Any

import django_filters
from django.db.models import Q

from config.api.filters import SwitchFilter, TextFilter
from config.slugs import NAME_LENGTH
from flags.api.flag_serializers import STALE_HELP, SUMMARY_HELP
from flags.models import TAG_LENGTH, Flag, FlagQuerySet, Segment, SegmentQuerySet
from flags.usage.staleness import not_stale, stale, with_stale_reasons

_SEARCH = "Part of the key or the description, in any case."
_STALE = (
    "`true`: only flags that are stale in this environment, each with its `staleReasons`. `false`: only the others. "
    f"Archived flags are never stale. {STALE_HELP}"
)


_SUMMARY = f"`true`: with the `summary` of each flag. {SUMMARY_HELP}"


class SummaryFilter(django_filters.FilterSet):
    """What an answer has in addition. It leaves out no flag."""

    summary = SwitchFilter(method="keep_all", label=_SUMMARY)

    class Meta:
        model = Flag
        fields = ()

    def keep_all(self, flags: FlagQuerySet, _name: str, _is_summary: bool) -> FlagQuerySet:
        return flags


class FlagFilter(SummaryFilter):
    enabled = SwitchFilter(field_name="enabled", label="Whether the flag is on in this environment.")
    search = TextFilter(method="search_text", label=_SEARCH)
    tag = TextFilter(method="choose_tag", max_length=TAG_LENGTH, label="A tag of the flag, exactly.")
    owner = TextFilter(field_name="owner", max_length=NAME_LENGTH, label="The owner of the flag, exactly.")
    archived = SwitchFilter(
        method="choose_archived", label="`true`: only archived flags. `false`, as by default: only the others."
    )
    expired = SwitchFilter(
        method="choose_expired", label="`true`: only flags whose `expiresAt` has passed. `false`: only the others."
    )
    clientVisible = SwitchFilter(
        field_name="client_visible", label="Whether keys of scope `client` may evaluate the flag."
    )
    stale = SwitchFilter(method="choose_stale", label=_STALE)

    def filter_queryset(self, queryset: FlagQuerySet) -> Any:
        has_archived = self.form.cleaned_data["archived"] is not None
        return super().filter_queryset(queryset if has_archived else queryset.current())

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
        with_reasons = with_stale_reasons(flags, self.request.auth.environment, self.request.now)
        return stale(with_reasons) if is_stale else not_stale(with_reasons)


class SegmentFilter(django_filters.FilterSet):
    search = TextFilter(method="search_text", label=_SEARCH)

    class Meta:
        model = Segment
        fields = ()

    def search_text(self, segments: SegmentQuerySet, _name: str, text: str) -> SegmentQuerySet:
        return segments.filter(_mentions(text))


def _mentions(text: str) -> Q:
    return Q(key__icontains=text) | Q(description__icontains=text)
