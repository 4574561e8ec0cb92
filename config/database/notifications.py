"""PostgreSQL's NOTIFY and LISTEN, by which a commit is announced to all hosts.

SQLite serves one host and has neither, so nothing happens there.
"""

from __future__ import annotations

import logging
import os
import select
from contextlib import suppress
from typing import Any

from django.db import Error, connection

logger = logging.getLogger(__name__)

CHANNEL = "halyard_changes"
LISTENER_NAME = "halyard-watcher"
"""The `application_name` of connections that listen, as pg_stat_activity shows it."""


def announce() -> None:
    """Announce to every host that the change log has grown, once the current transaction commits."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(f"NOTIFY {CHANNEL}")


class Alarm:
    """Ends the wait of a listener from any thread."""

    def __init__(self) -> None:
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._reading, False)
        os.set_blocking(self._writing, False)

    def fileno(self) -> int:
        return self._reading

    def ring(self) -> None:
        with suppress(BlockingIOError):  # it has rung so often that the pipe is full
            os.write(self._writing, b"!")

    def silence(self) -> None:
        with suppress(BlockingIOError):
            os.read(self._reading, select.PIPE_BUF)


class Listener:
    """Listens for one thread, on the thread's own connection, and on each connection that replaces it."""

    def __init__(self) -> None:
        self._tried_on: Any = None
        self._is_listening = False

    def listen(self) -> None:
        """Start listening on the current connection. If the database refuses, do not try again on it."""
        if connection.vendor != "postgresql":
            return
        connection.ensure_connection()
        if connection.connection is self._tried_on:
            return
        self._tried_on, self._is_listening = connection.connection, False
        if self._tried_on.is_pooled:  # announcements would go to whichever client has that connection of the pool
            return
        try:
            with connection.cursor() as cursor:
                cursor.execute(f"SET application_name = '{LISTENER_NAME}'")
                cursor.execute(f"LISTEN {CHANNEL}")
        except Error as error:
            logger.warning("Cannot listen for announcements of other hosts: %s", error)
        else:
            self._is_listening = True

    def wait(self, seconds: float, alarm: Alarm) -> None:
        """Wait for an announcement, which may have come since `listen`, or for the alarm, but no longer than this."""
        if self._has_heard():
            return
        poll = select.poll()
        poll.register(alarm, select.POLLIN)
        if self._is_listening:
            poll.register(connection.connection, select.POLLIN)
        poll.poll(seconds * 1000)
        alarm.silence()
        self._has_heard()  # so that this announcement does not end the next wait

    def _has_heard(self) -> bool:
        """Return whether an announcement came, also with the result of a statement."""
        if not self._is_listening:
            return False
        with connection.wrap_database_errors:
            return bool(list(connection.connection.notifies(timeout=0)))
