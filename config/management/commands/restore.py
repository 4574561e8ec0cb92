"""`manage.py restore`: replace the database by the content of a backup."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.db import connection

from config.database.backups import BackupFailed, restore
from config.management.operator import OperatorCommand


class Command(OperatorCommand):
    help = "Replace the database by what `manage.py backup` has written. Stop `serve` on every host before."
    any_schema = True

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, help="the file of the backup")
        parser.add_argument("--no-input", action="store_true", help="do not ask for confirmation")

    def handle(self, *, file: Path, no_input: bool, **_: Any) -> None:
        if not file.is_file():
            raise CommandError(f"{file} is no file.")
        name = connection.settings_dict["NAME"]
        question = f"Everything in {name} is replaced. Stop `serve` on every host first. Type the name to go on: "
        if not no_input and input(question).strip() != str(name):
            raise CommandError("Nothing was changed.")
        try:
            restore(file)
        except BackupFailed as error:
            raise CommandError(str(error)) from error
        self.stdout.write(f"{name} has the content of {file}. Run `manage.py migrate`, and then start `serve`.")
