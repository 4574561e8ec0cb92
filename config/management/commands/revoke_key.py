"""`manage.py revoke_key`: revoke an API key, which is refused from the next request on."""

from __future__ import annotations

from contextlib import suppress
from typing import Any
from uuid import UUID

from django.core.management.base import CommandError, CommandParser
from django.db.models import Q
from django.utils import timezone

from config.keys.api_keys import revoke_key
from config.management.operator import OperatorCommand, actor
from config.models import ApiKey
from config.timestamps import format_timestamp


class Command(OperatorCommand):
    help = "Revoke an API key permanently. Requests with it are refused at once."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("key", help="the id or the prefix of the key, as `list_keys` shows them")

    def handle(self, *, key: str, **_: Any) -> None:
        api_key = find_key(key)
        revoked = revoke_key(api_key, actor=actor(), at=timezone.now())
        assert revoked.revoked_at is not None  # noqa: S101 (revoke_key sets it)
        when = "was already revoked at" if api_key.revoked_at else "was revoked at"
        self.stdout.write(f"Key {revoked.pk} ({revoked.name}) {when} {format_timestamp(revoked.revoked_at)}.")


def find_key(text: str) -> ApiKey:
    """Return the key with this id or prefix. Raises CommandError."""
    condition = Q(prefix=text)
    with suppress(ValueError):  # not an id, but perhaps a prefix
        condition |= Q(pk=UUID(text))
    keys = list(ApiKey.objects.filter(condition))
    if not keys:
        raise CommandError(f"No key has the id or prefix {text!r}; `manage.py list_keys` lists all keys.")
    if len(keys) > 1:
        ids = ", ".join(str(key.pk) for key in keys)
        raise CommandError(f"{len(keys)} keys have the prefix {text!r}; use the id of one: {ids}.")
    return keys[0]
