"""`manage.py rotate_key`: replace an API key by a new one. Both are valid for some days."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from config.access.api_keys import rotate_key
from config.management.operator import OperatorCommand, actor, find_by_id_or_prefix
from config.models import ApiKey

_MAX_DAYS = 365


class Command(OperatorCommand):
    help = "Create a key like another one and print its secret. The other one expires after some days."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("key", help="the id or the prefix of the key, as `list_keys` shows them")
        parser.add_argument(
            "--overlap", type=int, default=7, help="how many days the old key stays valid (default: %(default)s)"
        )

    def handle(self, *, key: str, overlap: int, **_: Any) -> None:
        if not 1 <= overlap <= _MAX_DAYS:
            raise CommandError(f"--overlap must be 1 to {_MAX_DAYS} (in days).")
        old = find_by_id_or_prefix(ApiKey, key, "list_keys")
        made, secret = rotate_key(old, overlap=timedelta(days=overlap), actor=actor(), now=timezone.now())
        self.stderr.write(
            f"API key {made.pk} replaces {old.prefix}, which expires in {overlap} days or before. "
            "Its secret is shown only now:",
            self.style.SUCCESS,  # not an error, but stdout is for the secret alone
        )
        self.stdout.write(secret)
