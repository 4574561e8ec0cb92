"""`manage.py migrate`: as in Django, but it tries again while a table that it changes is in use."""

from __future__ import annotations

import time
from typing import Any

from django.core.management.base import CommandError
from django.core.management.commands import migrate
from django.db import OperationalError
from psycopg.errors import LockNotAvailable

from config.database.schema import SchemaWasReplaced, require_migratable

MAX_SECONDS = 600
"""The longest time that a statement may use a table, by default."""
SECONDS_BETWEEN_TRIES = 3.0
"""Requests that waited for the migration are served between two tries."""


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
