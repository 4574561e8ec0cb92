"""Running a command as a program. Errors that an operator can cause end it with a line that says what to do."""

from __future__ import annotations

import errno
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.core.management import execute_from_command_line
from django.core.management.base import SystemCheckError
from django.db import DatabaseError, Error, NotSupportedError
from django.db.models.signals import post_save
from django.utils import timezone

from config.database.outages import first_line, is_outage
from config.database.schema import SchemaIsBehind, require_schema
from config.monitoring.starting import watch_errors

_OF_THE_SYSTEM = (
    *(errno.EACCES, errno.EDQUOT, errno.ENOSPC, errno.EPERM, errno.EROFS),
    *(errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.ENOTDIR),
)
"""Errors of files that are not defects: missing permissions, a full disk, or an invalid path."""


_NO_RIGHT = "42501"
"""PostgreSQL's code for a missing permission."""
_MIGRATES = ("migrate", "serve", "setup")


def run(arguments: Sequence[str]) -> str | int | None:
    """Run a command, and return what `sys.exit` takes. With `--traceback`, errors are raised instead."""
    watch_errors()
    try:
        with _logging_accounts(arguments[1:2]):
            execute_from_command_line([*arguments])
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except EOFError:
        return "Nothing was changed: the command asks, and its input has ended. Use --no-input if it has that option."
    except (ImproperlyConfigured, SystemCheckError, Error, OSError) as error:
        words = None
        if "--traceback" not in arguments:
            words = explain(error, needs_schema=arguments[1] not in _MIGRATES)
        if words is None:
            raise
        return words
    return None


@contextmanager
def _logging_accounts(command: Sequence[str]) -> Iterator[None]:
    """Add changes of users by Django's own commands to the change log."""

    def log(instance: Any, created: bool, **_: object) -> None:
        from config.access.accounts import account_as_json, log_account, log_password  # noqa: PLC0415 (needs models)
        from config.management.operator import actor  # noqa: PLC0415

        if created:
            log_account(instance, None, account_as_json(instance), actor=actor(), now=timezone.now())
        else:
            log_password(instance, actor=actor(), now=timezone.now())

    if [*command] not in (["changepassword"], ["createsuperuser"]):
        yield
        return
    post_save.connect(log, sender="auth.User", weak=False)
    try:
        yield
    finally:
        post_save.disconnect(log, sender="auth.User")


def explain(error: Exception, *, needs_schema: bool) -> str | None:
    """Return what went wrong and what to do, or None for a defect."""
    match error:
        case ImproperlyConfigured() | SystemCheckError():
            return str(error)
        case OSError():
            return f"{error.filename}: {error.strerror}." if error.filename and error.errno in _OF_THE_SYSTEM else None
        case Error():
            return (_explain_old_schema() if needs_schema else None) or _explain_database(error)
    return None


def words_of(error: Error) -> str:
    """Return a sentence with the message of the driver, which contains no password."""
    return f"The database does not answer: {first_line(error)}."


def _explain_old_schema() -> str | None:
    """Return which migrations are missing, if any: a statement that failed may need them."""
    try:
        require_schema()
    except SchemaIsBehind as behind:
        return f"{behind}."
    except Error:
        return None
    return None


def _explain_database(error: Error) -> str | None:
    if is_outage(error):
        return f"{words_of(error)}\nCheck DATABASE_URL, and whether the database runs; `manage.py doctor` looks closer."
    has_right = getattr(error.__cause__, "sqlstate", None) != _NO_RIGHT
    # A file that is no database, or damaged; and a database that is too old for Django.
    if has_right and type(error) is not DatabaseError and not isinstance(error, NotSupportedError):
        return None
    return f"The database cannot be used: {first_line(error)}.\nCheck DATABASE_URL, and the rights of its user."
