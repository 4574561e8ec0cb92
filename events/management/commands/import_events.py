"""`manage.py import_events`: what happened elsewhere, or before, from a file."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError
from django.utils import timezone

from config.management.operator import find_environment
from events.imports.command import ImportCommand, were
from events.imports.history import import_events
from events.recording.ingest import Outcome
from events.removal.batches import several


class Command(ImportCommand):
    help = "Store the events of a file, each once however often it is imported: all of them, or none if a line is bad."

    def handle(self, *, file: str, environment: str | None, skip_invalid: bool, **options: Any) -> None:
        here, at = find_environment(environment), timezone.now()
        imported = self.import_file(
            file,
            options["format"],
            lambda opened, on_progress: import_events(
                opened, here, at=at, skips_invalid=skip_invalid, on_progress=on_progress
            ),
        )
        self.tell_skipped(imported.problems)
        stored, known = imported.outcomes[Outcome.ACCEPTED], imported.outcomes[Outcome.DUPLICATE]
        self.stdout.write(f"Imported {several(stored, 'event')}; {known:,} {were(known)} there already.")
        if imported.conflicts.count:
            raise CommandError("\n".join(["These were not imported:", *imported.conflicts.lines()]))
