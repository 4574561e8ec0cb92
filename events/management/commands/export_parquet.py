"""`manage.py export_parquet`: write the events of each day to a Parquet file, for a data warehouse."""

from __future__ import annotations

import importlib.util
from datetime import UTC
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from config.management.operator import OperatorCommand, find_environment
from events.exports import days_to_write, write_day


class Command(OperatorCommand):
    help = "Write events to Parquet, a file for each past day in UTC. Days that have a file are left out."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("folder", type=Path, help="where the files go")
        parser.add_argument("--environment", help="the key of the environment (default: the default environment)")
        parser.add_argument(
            "--again", type=int, default=3, help="how many of the last days are written again (default: %(default)s)"
        )

    def handle(self, *, folder: Path, environment: str | None, again: int, **_: Any) -> None:
        if importlib.util.find_spec("pyarrow") is None:
            raise CommandError("This needs the package pyarrow: run `.venv/bin/pip install pyarrow`.")
        exported = find_environment(environment)
        today = timezone.now().astimezone(UTC).date()
        for day in days_to_write(exported, folder, today, again):
            try:
                number = write_day(exported, folder, day)
            except OSError as error:
                raise CommandError(f"{error.filename or folder}: {error.strerror or error}.") from error
            self.stdout.write(f"{day:%Y-%m-%d}: {number:,} events")
