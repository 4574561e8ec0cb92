"""`manage.py import_flags`: write all flags and segments of a file, or none of them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from config.errors import ValidationFailed
from config.management.operator import OperatorCommand, actor, add_reason, find_environment
from flags.files.importing import MAX_BYTES, FileRefused, import_content, read
from flags.files.syntax import FORMS, form_of
from flags.management.differences import lines, summary

STANDARD = "-"


class Command(OperatorCommand):
    help = "Write the flags and segments of a YAML or JSON file. Those that are not in the file stay unchanged."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", help="a file in the format of export_flags; - is stdin")
        parser.add_argument("--environment", help="only the states in the environment with this key (default: all)")
        parser.add_argument("--format", choices=FORMS, help="default: by the suffix of the file, otherwise yaml")
        parser.add_argument("--dry-run", action="store_true", help="show what would change, and change nothing")
        add_reason(parser)

    def handle(self, *, file: str, environment: str | None, dry_run: bool, reason: str, **options: Any) -> None:
        only = None if environment is None else find_environment(environment).key
        form = options["format"] or form_of(file) or "yaml"
        try:
            content_file = read(_bytes_of(file), name=_name_of(file), form=form, only_environment=only)
            try:
                written = import_content(
                    content_file.content, actor=actor(), now=timezone.now(), reason=reason, is_dry_run=dry_run
                )
            except ValidationFailed as error:
                raise content_file.refused(error.details) from error
        except FileRefused as refusal:
            raise CommandError(f"{refusal}\nNothing was changed.") from refusal
        for line in lines(written):
            self.stdout.write(line)
        self.stdout.write(f"{'Dry run: ' if dry_run else ''}{summary(written)}.")


def _bytes_of(file: str) -> bytes:
    """Return the content of the file, at most one byte more than the limit."""
    if file == STANDARD:
        return sys.stdin.buffer.read(MAX_BYTES + 1)
    try:
        with Path(file).open("rb") as opened:
            return opened.read(MAX_BYTES + 1)
    except OSError as error:
        raise CommandError(f"Cannot read {file}: {error.strerror}.") from error


def _name_of(file: str) -> str:
    return "stdin" if file == STANDARD else Path(file).name
