"""Attributes of recent users with their values, as suggestions in forms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime

from django.conf import settings

from config.models import Environment
from flags.models import RecentUser
from flags.snapshot import configuration
from flags.usage.sample import PERIOD
from flags.usage.sources import attributes_in_use

_MAX_USERS = 1_000
_MAX_NAMES = 200
_MAX_VALUES = 20
_MAX_LENGTH = 100


def seen_values(environment: Environment, now: datetime) -> Mapping[str, Sequence[str]]:
    """Return the attribute names that rules read or recent users have, each with its most frequent values.

    Of an attribute with many values, such as an email address, only values that several users share are returned.
    """
    counts: dict[str, Counter[str]] = {
        name: Counter() for name in attributes_in_use(environment.key, configuration(environment.key))
    }
    for attributes in _attributes(environment, now):
        for name, value in attributes.items():
            counts.setdefault(name, Counter()).update(set(_typed_values(value)))
    return {name: _usual(counts[name]) for name in sorted(counts)[:_MAX_NAMES]}


def _attributes(environment: Environment, now: datetime) -> Sequence[Mapping[str, object]]:
    if not settings.RECENT_USERS:
        return ()
    users = RecentUser.objects.filter(environment=environment, seen_at__gte=now - PERIOD)
    return list(users.order_by("position").values_list("attributes", flat=True)[:_MAX_USERS])


def _typed_values(value: object) -> list[str]:
    """Return a value, or the elements of a list, as people type them."""
    if isinstance(value, list):
        return [text for element in value if not isinstance(element, list) for text in _typed_values(element)]
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return []
    return [text] if 0 < len(text := str(value)) <= _MAX_LENGTH else []


def _usual(counts: Counter[str]) -> list[str]:
    is_shared = len(counts) > _MAX_VALUES
    by_number = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [text for text, number in by_number[:_MAX_VALUES] if number > 1 or not is_shared]
