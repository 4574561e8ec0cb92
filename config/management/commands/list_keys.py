"""`manage.py list_keys`: list all API keys with their states, without secrets."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.core.management.base import CommandParser
from django.utils import timezone

from config.management.operator import OperatorCommand, find_environment
from config.models import ApiKey, Scope
from config.timestamps import format_timestamp

_HEADINGS = ("ID", "PREFIX", "NAME", "ENVIRONMENT", "SCOPE", "COMMON", "CREATED", "EXPIRES", "STATE")


class Command(OperatorCommand):
    help = "List the API keys, newest first, without their secrets."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--environment", help="the key of an environment (default: all environments)")

    def handle(self, *, environment: str | None, **_: Any) -> None:
        keys = ApiKey.objects.select_related("environment")
        if environment is not None:
            keys = keys.filter(environment=find_environment(environment))
        now = timezone.now()
        rows = [_HEADINGS, *(_row(key, now) for key in keys)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for row in rows:
            self.stdout.write("  ".join(map(str.ljust, row, widths)).rstrip())


def _row(key: ApiKey, now: datetime) -> Sequence[str]:
    return (
        str(key.pk),
        key.prefix,
        key.name,
        key.environment.key,
        key.scope,
        "yes" if key.scope == Scope.MANAGE and key.may_change_common else "no",
        format_timestamp(key.created_at),
        format_timestamp(key.expires_at) if key.expires_at else "never",
        _state(key, now),
    )


def _state(key: ApiKey, now: datetime) -> str:
    if key.revoked_at is not None:
        return "revoked"
    return "live" if key.is_live(now) else "expired"
