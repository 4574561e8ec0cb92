"""The connections of this process: how many are open, how long their statements may take, and which threads may wait.

PostgreSQL ends a statement that takes too long. If it does not answer either, the connection is closed a little later.
SQLite has no such limit; there, `DATABASE_TIMEOUT` limits how long a statement waits for the one writer.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakSet

from django.conf import settings
from django.db import connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

UNLIMITED = 0

_wrappers: WeakSet[BaseDatabaseWrapper] = WeakSet()
"""Of all threads that have opened a connection. A thread closes and opens connections in the same wrapper."""


def _add(connection: BaseDatabaseWrapper, **_: Any) -> None:
    _wrappers.add(connection)


connection_created.connect(_add, dispatch_uid="config.database.connections")


def count_open() -> int:
    return sum(wrapper.connection is not None for wrapper in _wrappers.copy())


class _Process:
    """What holds for statements of this process that say nothing else."""

    seconds: int | None = None


def seconds_of_process() -> int:
    """Return how long a statement may take in this process. A command has more time than a server."""
    seconds: int = settings.DATABASE_LONG_TIMEOUT if _Process.seconds is None else _Process.seconds
    return seconds


def limit_process(seconds: int) -> None:
    """Limit the statements of this process, on the connection of this thread and on later ones."""
    _Process.seconds = seconds
    wrapper: Any = connection
    if connection.vendor == "postgresql" and wrapper.connection is not None:
        wrapper.connection.limit_statements(seconds)


@contextmanager
def long_statements() -> Iterator[None]:
    """Let statements of this thread take DATABASE_LONG_TIMEOUT, until the end of the block or of the transaction."""
    if connection.vendor != "postgresql" or seconds_of_process() in (UNLIMITED, settings.DATABASE_LONG_TIMEOUT):
        yield
        return
    wrapper: Any = connection
    with wrapper.statements_limited_to(settings.DATABASE_LONG_TIMEOUT):
        yield


class WouldWait(BaseException):
    """This thread must not wait for the database. Nothing has been done yet, so another thread can do it all.

    It is no Exception, because Django and DRF would answer one.
    """


class _Thread(threading.local):
    may_wait = True


_thread = _Thread()


def forbid_waiting() -> None:
    """Keep this thread from waiting for the database from now on, because requests that do not need it depend on it."""
    _thread.may_wait = False


@contextmanager
def waiting_forbidden() -> Iterator[None]:
    """Keep this thread from waiting for the database in this block."""
    before, _thread.may_wait = _thread.may_wait, False
    try:
        yield
    finally:
        _thread.may_wait = before


def may_wait() -> bool:
    return _thread.may_wait


def require_waiting() -> None:
    """Raise WouldWait if this thread must not wait."""
    if not _thread.may_wait:
        raise WouldWait
