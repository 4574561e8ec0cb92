"""What will happen by itself, as the first page of the admin lists it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from django.urls import reverse

from config.models import ApiKey, Environment


class Scheduled(NamedTuple):
    """A moment, the name and the page of what it concerns, and what happens then in words."""

    at: datetime
    name: str
    address: str
    words: str


def expiring_keys(environment: Environment, now: datetime, until: datetime) -> Iterator[Scheduled]:
    """Yield the API keys of an environment that expire."""
    keys = environment.api_keys.filter(revoked_at=None, expires_at__gt=now, expires_at__lte=until)
    for key in keys:
        assert key.expires_at is not None  # noqa: S101 (the query asks for it)
        yield Scheduled(key.expires_at, key.name, _address(key), "expires, and calls with this API key are refused")


def _address(key: ApiKey) -> str:
    return reverse("admin:config_apikey_change", args=[key.pk])
