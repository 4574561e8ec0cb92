"""The base of the service's own commands: their actor in the change log, their arguments, and error
messages.
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
from config.models import Environment, Source
from config.slugs import REASON_LENGTH
from config.timestamps import parse_timestamp


class OperatorCommand(BaseCommand):
    """A command that makes domain calls. It prints a DomainError as one line on stderr, as the API
    words it.
    """

    def run_from_argv(self, argv: list[str]) -> None:
        """Run as a program, which ends silently when the reader of its output, such as `head`,
        closes the pipe.
        """
        try:
            super().run_from_argv(argv)
            sys.stdout.flush()
        except BrokenPipeError:
            # Python writes the rest of the buffer when it ends, so that must not fail.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(128 + signal.SIGPIPE)

    def execute(self, *args: Any, **options: Any) -> str | None:
        if isinstance(sys.stdout, TextIOWrapper):
            # A character that the terminal cannot show must not look like a failure of the command.
            sys.stdout.reconfigure(errors="backslashreplace")
        try:
            return super().execute(*args, **options)
        except DomainError as error:
            raise CommandError(error.message) from error


def actor() -> Actor:
    """Return the user of the operating system as the actor. In a container, the user may have no
    name.
    """
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        name = str(os.getuid())
    return Actor(f"operator {name}", Source.COMMAND)


def add_reason(parser: CommandParser) -> None:
    """Add the option `--reason`, for commands that write to the change log."""
    parser.add_argument("--reason", type=_reason, default="", help="the reason, which the history shows")


def _reason(text: str) -> str:
    if len(text) > REASON_LENGTH:
        raise ArgumentTypeError(f"must be at most {REASON_LENGTH:,} characters")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ArgumentTypeError("must be UTF-8") from None
    return text


def moment(text: str) -> datetime:
    """Read an argument that is a time or a day, in UTC unless it has an offset."""
    try:
        return parse_timestamp(text)
    except ValueError:
        message = "must be a day such as 2026-01-31, in UTC, or a time such as 2026-01-31T12:00:00Z"
        raise ArgumentTypeError(message) from None


def find_environment(key: str | None) -> Environment:
    """Return the environment with this key, or the default environment for None."""
    if key is None:
        return Environment.objects.default()
    environment = Environment.objects.filter(key=key).first()
    if environment is None:
        keys = ", ".join(Environment.objects.values_list("key", flat=True))
        raise CommandError(f"Unknown environment {key!r}; use one of: {keys}.")
    return environment
