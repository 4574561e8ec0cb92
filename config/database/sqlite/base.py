"""The backend: transactions that write wait in a line for SQLite's one writer.

SQLite itself lets those who wait try again after pauses of up to 100 ms, and the first to try is next. A process
that writes without pause could then keep another one waiting for seconds. So only the first in the line tries, and
often.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager

from django.conf import settings
from django.db import OperationalError
from django.db.backends.sqlite3 import base

from config.database.file_locks import file_lock

_MIN_PAUSE, _MAX_PAUSE = 0.0003, 0.005
_PART_OF_WAIT = 0.05
"""A pause is this part of the time that was waited already, so that a long wait takes little CPU time."""
_PRIMARY_CODE = 0xFF


class DatabaseWrapper(base.DatabaseWrapper):
    transaction_mode: str | None

    def _start_transaction_under_autocommit(self) -> None:
        if self.transaction_mode != "IMMEDIATE" or self.is_in_memory_db():
            super()._start_transaction_under_autocommit()  # type: ignore[misc]  # its stub lacks it
            return
        wait = _Wait(settings.DATABASE_TIMEOUT)
        with _first_in_line(wait), self._busy_at_once():
            while not self._begins(wait):
                wait.pause()

    def _begins(self, wait: _Wait) -> bool:
        """Try to begin the transaction. Raises OperationalError once the wait is over."""
        try:
            # The exception of a cursor keeps it in a cycle of references. The thread that collects it waits for this
            # connection, and this connection may be waiting for the transaction of that thread.
            self.connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if wait.is_over or not _is_busy(error):
                raise OperationalError(*error.args) from error
            return False
        return True

    @contextmanager
    def _busy_at_once(self) -> Iterator[None]:
        """Let statements fail at once, instead of waiting, while another transaction writes."""
        self.connection.execute("PRAGMA busy_timeout = 0")
        try:
            yield
        finally:
            self.connection.execute(f"PRAGMA busy_timeout = {settings.DATABASE_TIMEOUT * 1000}")


class _Wait:
    """A wait in pauses, which is over after some seconds."""

    def __init__(self, seconds: float) -> None:
        self._begun = time.monotonic()
        self._seconds = seconds

    @property
    def is_over(self) -> bool:
        return time.monotonic() - self._begun > self._seconds

    def pause(self) -> None:
        waited = time.monotonic() - self._begun
        time.sleep(min(max(waited * _PART_OF_WAIT, _MIN_PAUSE), _MAX_PAUSE))


@contextmanager
def _first_in_line(wait: _Wait) -> Iterator[None]:
    """Be the first in the line in this block, or not if that takes too long.

    Without such a file, as in a folder that cannot be written, there is no line, and SQLite says what is wrong.
    """
    with file_lock(settings.RUNTIME_DIR / "line.lock", is_needed=False) as try_to_lock:
        while not try_to_lock() and not wait.is_over:
            wait.pause()
        yield


def _is_busy(error: sqlite3.OperationalError) -> bool:
    return error.sqlite_errorcode & _PRIMARY_CODE == sqlite3.SQLITE_BUSY
