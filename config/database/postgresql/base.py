"""Connections of which it is seen whether the server has closed them. Django would send `SELECT 1` in each request."""

from __future__ import annotations

import select

from django.db.backends.postgresql import base
from psycopg.pq import ConnStatus


class DatabaseWrapper(base.DatabaseWrapper):
    def is_usable(self) -> bool:
        """Whether the next statement can be sent: a server that lives is silent between requests.

        One that ends says so and closes. One that vanished without a word would not answer `SELECT 1` either.
        """
        if self.connection is None or self.errors_occurred:
            return super().is_usable()
        connection = self.connection.pgconn
        if connection.status != ConnStatus.OK:
            return False
        socket = select.poll()
        socket.register(connection.socket, select.POLLIN)
        return not socket.poll(0)
