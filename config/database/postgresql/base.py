"""The backend: it checks a connection by its socket, where Django would send `SELECT 1` in each
request.
"""

from __future__ import annotations

import select

from django.db.backends.postgresql import base
from psycopg.pq import ConnStatus


class DatabaseWrapper(base.DatabaseWrapper):
    def is_usable(self) -> bool:
        """Return whether the next statement can be sent.

        A running server sends nothing between requests. One that ends sends a message and closes
        the connection. If it vanished silently, `SELECT 1` would get no response either.
        """
        if self.connection is None or self.errors_occurred:
            return super().is_usable()
        connection = self.connection.pgconn
        if connection.status != ConnStatus.OK:
            return False
        socket = select.poll()
        socket.register(connection.socket, select.POLLIN)
        return not socket.poll(0)
