"""Suggestions for forms: flags with their variants, and attributes of recent users.

If there are few flags, the page contains all of them. Otherwise its scripts ask for those whose key contains what was
typed.
"""

from __future__ import annotations

from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import reverse
from django.utils import timezone

from config import snapshot
from config.admin.current_environment import current_environment
from config.admin.site import DomainAdmin
from config.slugs import KEY_LENGTH
from flags.models import Flag, FlagQuerySet
from flags.usage.seen_values import seen_values

MAX_IN_A_PAGE = 60
"""How many flags scripts show in a select."""
MAX_FOUND = 50

KnownFlags = dict[str, list[str]]
"""Keys of variants by the key of their flag."""


def known_flags(flags: FlagQuerySet) -> KnownFlags | None:
    """Return all flags, or None if there are too many for a page."""
    found = _variant_keys(flags[: MAX_IN_A_PAGE + 1])
    return found if len(found) <= MAX_IN_A_PAGE else None


def address_of_known_flags() -> str:
    return reverse("admin:flags_flag_known")


class KnownFlagsPage(DomainAdmin):
    def get_urls(self) -> list[Any]:
        return [
            self.route("known/", self.known_flags_view, "known"),
            self.route("seen/", self.seen_attributes_view, "seen"),
            *super().get_urls(),
        ]

    def known_flags_view(self, request: HttpRequest) -> HttpResponse:
        """Answer with the flags whose key contains a text. An exact match comes first."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        text = request.GET.get("text", "")
        if len(text) > KEY_LENGTH or "\0" in text:
            return JsonResponse({})
        flags = Flag.objects.current()
        of_this_key, others = flags.filter(key=text), flags.filter(key__icontains=text)[:MAX_FOUND]
        return JsonResponse({**_variant_keys(of_this_key), **_variant_keys(others)})

    def seen_attributes_view(self, request: HttpRequest) -> HttpResponse:
        """Answer with the attributes that rules read or recent users have, and their usual values."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        snapshot.refresh()
        return JsonResponse(seen_values(current_environment(request), timezone.now()))


def _variant_keys(flags: FlagQuerySet) -> KnownFlags:
    return {key: [variant["key"] for variant in variants] for key, variants in flags.values_list("key", "variants")}
