"""The bases of the commands: their actor in the change log, their arguments and errors, and how they find a row."""

from __future__ import annotations

import getpass
import os
import signal
import sys
from argparse import ArgumentTypeError
from contextlib import suppress
from datetime import datetime
from io import TextIOWrapper
from typing import Any, ClassVar, Protocol, TypeVar
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import Error
from django.db.models import Model, Q
from django.utils import timezone
from django.utils.text import capfirst

from config.change_log.writing import Actor
from config.database.schema import SchemaWasReplaced, require_migratable
from config.errors import DomainError
from config.models import Environment, Source
from config.slugs import REASON_LENGTH
from config.timestamps import format_timestamp, parse_timestamp


class OperatorCommand(BaseCommand):
    """A command that calls the domain. It prints the message of a DomainError as one line on stderr.

    On a database that was made before the first release, the program does nothing but say how to move, unless the
    command works with `any_schema`.
    """

    any_schema = False
    _is_program = False
    """Whether it runs by itself, and not within another program such as a test or the setup."""

    def run_from_argv(self, argv: list[str]) -> None:
        """End silently when the reader of the output, such as `head`, closes the pipe."""
        self._is_program = True
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
        if self._is_program and not self.any_schema:
            self._require_migratable()
        try:
            return super().execute(*args, **options)
        except DomainError as error:
            raise CommandError(error.message) from error

    def _require_migratable(self) -> None:
        with suppress(Error):  # which the command says itself
            try:
                require_migratable()
            except SchemaWasReplaced as error:
                raise CommandError(f"{error}.") from error


def actor() -> Actor:
    """Return the user of the operating system as the actor. In a container, a user may have no name."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        name = str(os.getuid())
    return Actor(f"operator {name}", Source.COMMAND)


def add_reason(parser: CommandParser) -> None:
    """Add the option `--reason`, for commands that write to the change log."""
    parser.add_argument("--reason", type=_reason, default="", help="the reason, which the history shows")


def _reason(argument: str) -> str:
    if len(argument) > REASON_LENGTH:
        raise ArgumentTypeError(f"must be at most {REASON_LENGTH:,} characters")
    try:
        argument.encode()
    except UnicodeEncodeError:
        raise ArgumentTypeError("must be UTF-8") from None
    return argument


def parse_time(argument: str) -> datetime:
    """Parse an argument that is a time or a day, in UTC unless it has an offset."""
    try:
        return parse_timestamp(argument)
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


M = TypeVar("M", bound=Model)


class _Revoke(Protocol):
    def __call__(self, row: Any, /, *, actor: Actor, now: datetime) -> Any: ...


class RevokeCommand(OperatorCommand):
    """Revokes a row of `model`. `listing` is the command that lists the rows."""

    model: ClassVar[type[Model]]
    listing: ClassVar[str]
    revoke: _Revoke

    def add_arguments(self, parser: CommandParser) -> None:
        help = f"the id or the prefix of the {self.model._meta.verbose_name}, as `{self.listing}` shows them"
        parser.add_argument("name", metavar="id_or_prefix", help=help)

    def handle(self, *, name: str, **_: Any) -> None:
        row: Any = find_by_id_or_prefix(self.model, name, self.listing)
        revoked = self.revoke(row, actor=actor(), now=timezone.now())
        when = "was already revoked at" if row.revoked_at else "was revoked at"
        noun = capfirst(str(self.model._meta.verbose_name))
        self.stdout.write(f"{noun} {revoked.pk} ({revoked.name}) {when} {format_timestamp(revoked.revoked_at)}.")


def find_by_id_or_prefix(model: type[M], id_or_prefix: str, listing: str) -> M:
    """Return the row with this id or prefix. Raises CommandError unless there is exactly one."""
    condition = Q(prefix=id_or_prefix)
    with suppress(ValueError):  # not an id, but perhaps a prefix
        condition |= Q(pk=UUID(id_or_prefix))
    rows, names = list(model._default_manager.filter(condition)), model._meta
    if not rows:
        raise CommandError(
            f"No {names.verbose_name} has the id or prefix {id_or_prefix!r}; `manage.py {listing}` lists all."
        )
    if len(rows) > 1:
        ids = ", ".join(str(row.pk) for row in rows)
        raise CommandError(
            f"{len(rows)} {names.verbose_name_plural} have the prefix {id_or_prefix!r}; use the id of one: {ids}."
        )
    return rows[0]
