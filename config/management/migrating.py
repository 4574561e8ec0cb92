"""Applying migrations when several hosts may do so at the same time."""

from __future__ import annotations

import time

from django.core.management import call_command
from django.core.management.base import OutputWrapper

from config.database.locks import advisory_lock
from config.database.schema import missing_migrations

_SECONDS_BETWEEN_TRIES = 1.0


def migrate(out: OutputWrapper, *, verbosity: int = 1) -> int:
    """Apply missing migrations, or wait until another process has. Return how many this process applied."""
    has_said_so = False
    while True:
        with advisory_lock("migrate") as is_ours:
            if is_ours:
                missing = len(missing_migrations())
                # Even with none missing: it also creates the environments, which an interruption may have prevented.
                call_command("migrate", verbosity=verbosity if missing else 0, interactive=False, stdout=out)
                return missing
        if not has_said_so:
            out.write("Another process is migrating the database; waiting for it.")
            has_said_so = True
        time.sleep(_SECONDS_BETWEEN_TRIES)
