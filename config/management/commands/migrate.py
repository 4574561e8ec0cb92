"""`manage.py migrate`: as in Django, and again while a table that must be changed is in use."""

from __future__ import annotations

import time
from typing import Any

from django.core.management.base import CommandError
from django.core.management.commands import migrate
from django.db import OperationalError
from psycopg.errors import LockNotAvailable

from config.database.schema import SchemaWasReplaced, require_migratable

MAX_SECONDS = 600
"""As long as the longest statements may use a table, by default."""
SECONDS_BETWEEN_TRIES = 3.0
"""In that time, requests that have waited behind the migration are served."""


class Command(migrate.Command):
    def handle(self, *args: Any, **options: Any) -> None:
        try:
            require_migratable()
        except SchemaWasReplaced as error:
            raise CommandError(f"{error}.") from error
        deadline = time.monotonic() + MAX_SECONDS
        while True:
            try:
                super().handle(*args, **options)
                return
            except OperationalError as error:
                if not isinstance(error.__cause__, LockNotAvailable) or time.monotonic() > deadline:
                    raise
                self.stderr.write(f"A table is in use, so it cannot be changed now. Trying again. {error}".strip())
            time.sleep(SECONDS_BETWEEN_TRIES)
