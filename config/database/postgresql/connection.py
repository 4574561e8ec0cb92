"""A connection whose statements are limited in time, also if the server does not answer, or is behind a pool."""

from __future__ import annotations

from typing import Any, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.errors import _WaitTimeout
from psycopg.pq import TransactionStatus

Result = TypeVar("Result")

SECONDS_TO_END = 5
"""How long the server may take to report that it has ended a statement."""


class Connection(psycopg.Connection[Any]):
    """`seconds` is how long a statement may take; 0 is without a limit.

    `most_seconds` is how long this end waits for an answer at most, while it is set.

    With `is_pooled`, a pool such as PgBouncer may give each transaction to another connection of its own. So limits are
    set in each transaction.
    """

    seconds = 0
    most_seconds: float | None = None
    idle_seconds = 0
    is_pooled = False

    def wait(self, gen: PQGen[Result], interval: float = 0.1, timeout: float | None = None) -> Result:
        """Raises OperationalError, and closes the connection, if the server does not answer."""
        if timeout is None:
            timeout = self.most_seconds or (self.seconds + SECONDS_TO_END if self.seconds else None)
            if timeout is not None:
                return self._wait_at_most(gen, interval, timeout)
        return super().wait(gen, interval, timeout)

    def _wait_at_most(self, gen: PQGen[Result], interval: float, timeout: float) -> Result:
        try:
            return super().wait(gen, interval, timeout)
        except _WaitTimeout as error:
            self.pgconn.finish()
            raise psycopg.OperationalError("The database does not answer; the connection is closed.") from error

    def limit_statements(self, seconds: int) -> None:
        """Limit the statements from now on: of this transaction, or outside of one, of the session."""
        self.seconds = seconds
        if self.autocommit and not self.is_pooled:
            self.execute(f"SET SESSION statement_timeout = {seconds * 1000}")
        elif not self.autocommit:
            self.execute(f"SET LOCAL statement_timeout = {seconds * 1000}")

    def _start_query(self) -> PQGen[None]:
        is_beginning = not self.autocommit and self.pgconn.transaction_status == TransactionStatus.IDLE
        yield from super()._start_query()
        if is_beginning and self.is_pooled:
            yield from self._exec_command(f"SET LOCAL statement_timeout = {self.seconds * 1000}".encode())
            idle = f"SET LOCAL idle_in_transaction_session_timeout = {self.idle_seconds * 1000}"
            yield from self._exec_command(idle.encode())
