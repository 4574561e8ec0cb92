"""PostgreSQL's NOTIFY and LISTEN: what is committed here is announced to the other hosts, and heard of there.

SQLite serves one host, and has neither.
"""

from __future__ import annotations

import logging
import time
from typing import Any

from django.db import Error, connection

logger = logging.getLogger(__name__)

CHANNEL = "halyard_changes"
LISTENER_NAME = "halyard-watcher"
"""The `application_name` of connections that listen, for whoever looks at pg_stat_activity."""


def announce() -> None:
    """Tell every host that the change log has grown, when the transaction under way commits, and only if it does."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(f"NOTIFY {CHANNEL}")


class Listener:
    """The ear of one thread, on the thread's own connection: when that is replaced, the new one listens in its turn."""

    def __init__(self) -> None:
        self._tried_on: Any = None
        self._is_listening = False

    def listen(self) -> None:
        """Hear from now on what is announced. Where a database refuses that, it is not asked again and again."""
        if connection.vendor != "postgresql":
            return
        connection.ensure_connection()
        if connection.connection is self._tried_on:
            return
        self._tried_on, self._is_listening = connection.connection, False
        try:
            with connection.cursor() as cursor:
                cursor.execute(f"SET application_name = '{LISTENER_NAME}'")
                cursor.execute(f"LISTEN {CHANNEL}")
        except Error as error:
            logger.warning("Cannot hear at once what other hosts announce: %s", error)
        else:
            self._is_listening = True

    def wait(self, seconds: float) -> None:
        """Until something is announced, or was since `listen`; at most so long."""
        if not self._is_listening:
            time.sleep(seconds)
            return
        with connection.wrap_database_errors:
            for _ in connection.connection.notifies(timeout=seconds, stop_after=1):
                pass
