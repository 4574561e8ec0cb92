"""`manage.py doctor`: examine what the service depends on, and say what to do."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from config.management.examinations import Level, Options, examine_all

_WIDTH = 10


class Command(BaseCommand):
    help = "Examine the database, the clock, the disk, settings, the proxy, streams and results, and say what to do."
    requires_system_checks = []  # it reports them itself

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--url", help="the address at which clients reach the service, such as https://flags.example.com"
        )

    def handle(self, *, url: str | None, **_: Any) -> None:
        styles = {
            Level.OK: self.style.SUCCESS,
            Level.WARNING: self.style.WARNING,
            Level.ERROR: self.style.ERROR,
        }
        errors = 0
        for subject, finding in examine_all(Options(url.rstrip("/") if url else None)):
            errors += finding.level is Level.ERROR
            self.stdout.write(f"{styles[finding.level](finding.level.value.ljust(_WIDTH))}{subject}: {finding.words}")
            if finding.remedy:
                self.stdout.write(f"{'':{_WIDTH}}{finding.remedy}")
        if errors:
            raise CommandError(f"{errors} of these must be mended." if errors > 1 else "One of these must be mended.")
