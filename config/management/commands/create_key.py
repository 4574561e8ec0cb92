"""`manage.py create_key`: create an API key. Only its secret goes to stdout, for scripts."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from config.access.api_keys import create_key
from config.management.operator import OperatorCommand, actor, find_environment
from config.models import Scope
from config.timestamps import format_timestamp, parse_timestamp


class Command(OperatorCommand):
    help = "Create an API key and print its secret, which is not stored and cannot be shown again."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--name", required=True, help="what the key is for")
        parser.add_argument("--environment", help="the key of the environment (default: the default environment)")
        parser.add_argument("--scope", required=True, help=f"what the key may do: {', '.join(Scope.values)}")
        parser.add_argument(
            "--common",
            action="store_true",
            help="let a manage key also change what all environments share: environments, segments, metrics, and "
            "variants, schemas and prerequisites of flags that exist",
        )
        parser.add_argument("--expires", help="the expiry, such as 2027-01-31T00:00:00Z or 90d (default: never)")

    def handle(
        self, *, name: str, environment: str | None, scope: str, common: bool, expires: str | None, **_: Any
    ) -> None:
        now = timezone.now()
        key, secret = create_key(
            name=name,
            environment=find_environment(environment),
            scope=_read_scope(scope),
            common=common,
            expires_at=_read_expiry(expires, now),
            actor=actor(),
            now=now,
        )
        until = f"until {format_timestamp(key.expires_at)}" if key.expires_at else "without expiry"
        self.stderr.write(
            f"API key {key.pk} ({key.scope} in {key.environment.key}, {until}). Its secret is shown only now:",
            self.style.SUCCESS,  # not an error, but stdout is for the secret alone
        )
        self.stdout.write(secret)


def _read_scope(text: str) -> Scope:
    try:
        return Scope(text)
    except ValueError:
        raise CommandError(f"Unknown scope {text!r}; use one of: {', '.join(Scope.values)}.") from None


def _read_expiry(text: str | None, now: datetime) -> datetime | None:
    if text is None:
        return None
    try:
        if days := re.fullmatch(r"(\d+)d", text, re.ASCII):
            return now + timedelta(days=int(days[1]))
        return parse_timestamp(text)
    except (ValueError, OverflowError):
        message = f"Cannot read {text!r}; --expires takes a time such as 2027-01-31T00:00:00Z or days such as 90d."
        raise CommandError(message) from None
