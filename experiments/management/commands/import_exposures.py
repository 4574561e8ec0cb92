"""`manage.py import_exposures`: import exposures from a file, of users who were exposed elsewhere or earlier."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from config.management.operator import find_environment
from events.management.import_command import ImportCommand, were
from events.removal import format_count
from experiments.api.exposure_imports import import_exposures
from experiments.models.documents import get_experiment


class Command(ImportCommand):
    help = "Import exposures from a file into a started experiment: all of them, or none if a line is invalid."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("experiment", help="the key of a started experiment")
        super().add_arguments(parser)

    def handle(
        self, *, experiment: str, file: str, environment: str | None, skip_invalid: bool, **options: Any
    ) -> None:
        target, now = get_experiment(experiment, find_environment(environment)), timezone.now()
        imported = self.import_file(
            file,
            options["format"],
            lambda opened, on_progress: import_exposures(
                target, opened, now=now, skips_invalid=skip_invalid, on_progress=on_progress
            ),
        )
        self.report_skipped(imported.problems)
        lines, users = format_count(imported.lines, "exposure"), format_count(imported.users, "user")
        self.stdout.write(f"Imported {lines} into {target.key}; {users} {were(imported.users)} new.")
        self.report_warnings(imported.warnings)
        if imported.left_out.count:
            message = "These were not imported, because the experiment was changed during the import:"
            raise CommandError("\n".join([message, *imported.left_out.lines()]))
