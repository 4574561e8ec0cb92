"""What the service's own commands share: who runs them, for the change log, and how a refusal
reaches them.
"""

from __future__ import annotations

import getpass
import os
import signal
import sys
from argparse import ArgumentTypeError
from datetime import datetime
from io import TextIOWrapper
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from config.change_log.writing import Actor
from config.errors import DomainError
from config.models import Change, Environment, Source
from config.timestamps import parse_timestamp


class OperatorCommand(BaseCommand):
    """A command that makes domain calls: what they refuse is one line on stderr, in the words of
    the API.
    """

    def run_from_argv(self, argv: list[str]) -> None:
        """Run as a program, which ends without a word where whoever reads its output has enough, as
        `head` has.
        """
        try:
            super().run_from_argv(argv)
            sys.stdout.flush()
        except BrokenPipeError:
            # What is left in the buffer is written when Python ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(128 + signal.SIGPIPE)

    def execute(self, *args: Any, **options: Any) -> str | None:
        if isinstance(sys.stdout, TextIOWrapper):
            # What a terminal cannot show must not look like a failure of what has been done by
            # then.
            sys.stdout.reconfigure(errors="backslashreplace")
        try:
            return super().execute(*args, **options)
        except DomainError as error:
            raise CommandError(error.message) from error


def actor() -> Actor:
    """The user of the operating system, who in a container may have no name."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        name = str(os.getuid())
    return Actor(f"operator {name}", Source.COMMAND)


def add_reason(parser: CommandParser) -> None:
    """The option `--reason`, of commands that write to the change log."""
    parser.add_argument("--reason", type=_reason, default="", help="why, for the history")


def _reason(text: str) -> str:
    longest = Change._meta.get_field("reason").max_length or 0
    if len(text) > longest:
        raise ArgumentTypeError(f"must be at most {longest:,} characters")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ArgumentTypeError("must be UTF-8") from None
    return text


def moment(text: str) -> datetime:
    """The type of an argument that is a moment or a day, in UTC unless it says otherwise."""
    try:
        return parse_timestamp(text)
    except ValueError:
        message = "must be a day such as 2026-01-31, in UTC, or a moment such as 2026-01-31T12:00:00Z"
        raise ArgumentTypeError(message) from None


def find_environment(key: str | None) -> Environment:
    """The environment of this key, or the default one where none is named."""
    if key is None:
        return Environment.objects.default()
    environment = Environment.objects.filter(key=key).first()
    if environment is None:
        known = ", ".join(Environment.objects.values_list("key", flat=True))
        raise CommandError(f"Unknown environment {key!r}; use one of: {known}.")
    return environment
