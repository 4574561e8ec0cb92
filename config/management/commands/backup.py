"""`manage.py backup`: copy the whole database to a file, while it is served."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.db import connection

from config.database.backups import BackupFailed, back_up
from config.management.operator import OperatorCommand
from config.management.progress import show_progress


class Command(OperatorCommand):
    help = "Copy the whole database to a file, while it is served. `manage.py restore` reads the file."
    any_schema = True

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, help="the new file; one that exists is not overwritten")

    def handle(self, *, file: Path, **_: Any) -> None:
        if file.exists():
            raise CommandError(f"{file} exists; name a new file.")
        unfinished = file.with_name(f".{file.name}.unfinished")
        try:
            os.close(os.open(unfinished, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600))  # it holds everything
            with show_progress(self.stderr, 100, "Backup", "%") as add:
                back_up(unfinished, add)
            unfinished.rename(file)
        except BackupFailed as error:
            raise CommandError(str(error)) from error
        except OSError as error:
            raise CommandError(f"{file}: {error.strerror}.") from error
        finally:
            with suppress(OSError):  # a path that is none cannot be removed, either
                unfinished.unlink(missing_ok=True)
        self.stdout.write(f"{connection.display_name} is backed up to {file}, {file.stat().st_size:,} bytes.")
