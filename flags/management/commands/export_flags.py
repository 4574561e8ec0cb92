"""`manage.py export_flags`: write flags and segments to a file that `import_flags` can read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser

from config.management.operator import OperatorCommand, find_environment
from config.models import Environment
from flags.files.exporting import content_of_file
from flags.files.syntax import FORMS, form_of, write

STANDARD = "-"


class Command(OperatorCommand):
    help = "Write all flags and segments, or the given flags and the segments that they use, as YAML or JSON."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("keys", nargs="*", help="the keys of flags (default: all)")
        parser.add_argument("--environment", help="only the states in the environment with this key (default: all)")
        parser.add_argument("--format", choices=FORMS, help="default: by the suffix of the file, otherwise yaml")
        parser.add_argument("--output", default=STANDARD, help="the file to write (default: stdout)")

    def handle(self, *, keys: list[str], environment: str | None, output: str, **options: Any) -> None:
        form = options["format"] or form_of(output) or "yaml"
        environments = list(Environment.objects.all()) if environment is None else [find_environment(environment)]
        text = write(content_of_file(keys, environments), form)
        if output == STANDARD:
            self.stdout.write(text, ending="")
            return
        try:
            Path(output).write_text(text, encoding="utf-8")
        except OSError as error:
            raise CommandError(f"Cannot write {output}: {error.strerror}.") from error
