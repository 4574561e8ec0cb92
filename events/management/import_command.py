"""The base class of commands that import a file: options, its progress in bytes, and reports of problems."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from django.core.management.base import CommandError, CommandParser

from config.management.operator import OperatorCommand
from config.management.progress import show_progress
from events.imports.files import FORMATS, File, FileRefused, opened
from events.imports.importing import InvalidLines, Problems

Done = TypeVar("Done")


class ImportCommand(OperatorCommand):
    """A command that imports a file, or stdin."""

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", help="CSV or NDJSON, with or without gzip compression; - reads stdin")
        parser.add_argument("--format", choices=FORMATS, help="default: by the name of the file; ndjson for stdin")
        parser.add_argument("--environment", help="the key of the environment (default: the default environment)")
        parser.add_argument("--skip-invalid", action="store_true", help="skip invalid lines and import the others")

    def import_file(
        self, name: str, file_format: str | None, run: Callable[[File, Callable[[int], object]], Done]
    ) -> Done:
        """Open the file and import it with `run`, which reads it twice."""
        try:
            with (
                opened(name, file_format) as file,
                show_progress(self.stderr, 2 * file.size, "Import", "B") as on_progress,
            ):
                return run(file, on_progress)
        except FileRefused as error:
            raise CommandError(f"{name}: {error}") from error
        except InvalidLines as error:
            raise CommandError(f"{error}\nNothing was imported.") from error

    def report_skipped(self, problems: Problems) -> None:
        for line in problems.lines():
            self.stderr.write(f"skipped {line}" if line.startswith("line") else line)

    def report_warnings(self, warnings: Sequence[str]) -> None:
        if warnings:
            self.stdout.write("\n".join(["This looks wrong:", *(f"- {warning}" for warning in warnings)]))


def were(number: int) -> str:
    return "was" if number == 1 else "were"
