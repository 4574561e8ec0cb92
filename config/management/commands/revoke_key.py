"""`manage.py revoke_key`: an API key that is refused from the next request on."""

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
    help = "Revoke an API key for good; the next request that carries it is refused."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("key", help="its id or its prefix, as `list_keys` shows them")

    def handle(self, *, key: str, **_: Any) -> None:
        found = _find(key)
        revoked = revoke_key(found, actor=actor(), at=timezone.now())
        assert revoked.revoked_at is not None  # noqa: S101 (that is what revoking is)
        when = "was revoked already, at" if found.revoked_at else "is revoked since"
        self.stdout.write(f"Key {revoked.pk} ({revoked.name}) {when} {format_timestamp(revoked.revoked_at)}.")


def _find(text: str) -> ApiKey:
    match = Q(prefix=text)
    with suppress(ValueError):  # no id, then, but perhaps a prefix
        match |= Q(pk=UUID(text))
    found = list(ApiKey.objects.filter(match))
    if not found:
        raise CommandError(f"No key has the id or prefix {text!r}; `manage.py list_keys` shows them all.")
    if len(found) > 1:
        ids = ", ".join(str(key.pk) for key in found)
        raise CommandError(f"{len(found)} keys have the prefix {text!r}; name one by its id: {ids}.")
    return found[0]
