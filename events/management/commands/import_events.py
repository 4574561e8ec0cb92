"""`manage.py import_events`: store events from a file."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError
from django.utils import timezone

from config.management.operator import find_environment
from events.imports.event_files import import_events
from events.management.import_command import ImportCommand, were
from events.recording import Outcome
from events.removal import format_count


class Command(ImportCommand):
    help = "Store the events of a file: all, or none if a line is invalid. Importing a file again stores nothing twice."

    def handle(self, *, file: str, environment: str | None, skip_invalid: bool, **options: Any) -> None:
        target, now = find_environment(environment), timezone.now()
        imported = self.import_file(
            file,
            options["format"],
            lambda opened, on_progress: import_events(
                opened, target, received_at=now, skips_invalid=skip_invalid, on_progress=on_progress
            ),
        )
        self.report_skipped(imported.problems)
        stored, duplicates = imported.outcomes[Outcome.ACCEPTED], imported.outcomes[Outcome.DUPLICATE]
        self.stdout.write(
            f"Imported {format_count(stored, 'event')}; {duplicates:,} {were(duplicates)} already stored."
        )
        self.report_warnings(imported.warnings)
        if imported.conflicts.count:
            raise CommandError("\n".join(["These were not imported:", *imported.conflicts.lines()]))
