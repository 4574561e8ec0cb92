"""A connection whose statements are limited in time, also if the server does not answer, or is behind a pool.

On Citus, a transaction on several workers is committed as soon as the coordinator has committed it. If a worker crashes
right then, it has the transaction prepared, and shows nothing of it until Citus has recovered it, once a minute by
default. `settle` and `recover` do not wait so long.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.errors import Diagnostic, _WaitTimeout
from psycopg.pq import TransactionStatus

Result = TypeVar("Result")

SECONDS_TO_END = 5
"""How long the server may take to report that it has ended a statement."""

_TWO_ANSWERS_TO_COPY = "COPY cannot be mixed with other operations"
"""So the driver puts it. Other errors of this kind that it finds by itself are defects."""


class Connection(psycopg.Connection[Any]):
    """A connection that limits its statements.

    A statement may take `seconds`, where 0 is without a limit. While `max_wait` is set, this end waits for an answer no
    longer than that. `transactions` is how many have begun. Every warning of the server sets `has_warned`.

    With `is_pooled`, a pool such as PgBouncer may give each transaction to another connection of its own. So limits are
    set in each transaction.
    """

    seconds = 0
    max_wait: float | None = None
    idle_seconds = 0
    is_pooled = False
    transactions = 0
    has_warned = False

    def wait(self, gen: PQGen[Result], interval: float = 0.1, timeout: float | None = None) -> Result:
        """Raises OperationalError, and closes the connection, if the server does not answer or does so twice."""
        if timeout is None:
            timeout = self.max_wait or (self.seconds + SECONDS_TO_END if self.seconds else None)
            if timeout is not None:
                return self._wait_at_most(gen, interval, timeout)
        with self._one_answer():
            return super().wait(gen, interval, timeout)

    def _wait_at_most(self, gen: PQGen[Result], interval: float, timeout: float) -> Result:
        try:
            with self._one_answer():
                return super().wait(gen, interval, timeout)
        except _WaitTimeout as error:
            self.pgconn.finish()
            raise psycopg.OperationalError("The database does not answer; the connection is closed.") from error

    @contextmanager
    def _one_answer(self) -> Iterator[None]:
        """Close a connection that gets two answers: a pool adds an error of its own when a server ends a connection."""
        try:
            yield
        except (ValueError, psycopg.InternalError, psycopg.ProgrammingError) as error:
            is_of_server = getattr(error, "sqlstate", None) is not None
            if is_of_server or (isinstance(error, psycopg.ProgrammingError) and str(error) != _TWO_ANSWERS_TO_COPY):
                raise
            self.pgconn.finish()
            raise psycopg.OperationalError("The database ended the connection.") from error

    def note_warnings(self) -> None:
        """Set `has_warned` from now on."""
        self.add_notice_handler(self._note)

    def _note(self, diagnostic: Diagnostic) -> None:
        if diagnostic.severity_nonlocalized == "WARNING":
            self.has_warned = True

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
        self.transactions += is_beginning
        if is_beginning and self.is_pooled:
            yield from self._exec_command(f"SET LOCAL statement_timeout = {self.seconds * 1000}".encode())
            idle = f"SET LOCAL idle_in_transaction_session_timeout = {self.idle_seconds * 1000}"
            yield from self._exec_command(idle.encode())


_PAUSE = 0.1
_SECONDS_BETWEEN_RECOVERIES = 1.0
_NEXT = "SELECT pg_snapshot_xmax(pg_current_snapshot())::xid::text"
_RECOVER = "SELECT recover_prepared_transactions()"
# Each transaction writes a record, which recovery deletes when its worker has committed.
_IS_LEFT = "SELECT EXISTS (SELECT 1 FROM pg_dist_transaction WHERE age(xmin) > age(%s::text::xid))"


def settle(connection: psycopg.Connection[Any], seconds: float) -> None:
    """Wait until workers have committed all transactions that the coordinator has committed so far.

    The connection is outside of a transaction. Raises OperationalError if a worker has not after so many seconds.
    """
    until = time.monotonic() + seconds
    with _autocommit(connection):
        [following] = _ask(connection, _NEXT)
        while True:
            _ask(connection, _RECOVER)
            [is_left] = _ask(connection, _IS_LEFT, following)
            if not is_left:
                return
            if time.monotonic() > until:
                raise psycopg.OperationalError("A worker of Citus does not answer, and has not committed yet.")
            time.sleep(_PAUSE)


class _Recovery:
    """When this process may recover next."""

    lock = threading.Lock()
    next_recovery = 0.0


def recover(connection: psycopg.Connection[Any]) -> None:
    """Have Citus end what a worker that was lost has prepared, at most once a second in a process.

    A commit that failed may have left a prepared transaction there, which holds its rows. Without this, sending the
    same events again waits for them until Citus looks for such transactions. The connection is outside of a
    transaction. If it fails, its next statement says so.
    """
    with _Recovery.lock:
        now = time.monotonic()
        if now < _Recovery.next_recovery:
            return
        _Recovery.next_recovery = now + _SECONDS_BETWEEN_RECOVERIES
    with suppress(psycopg.Error), _autocommit(connection):
        _ask(connection, _RECOVER)


@contextmanager
def _autocommit(connection: psycopg.Connection[Any]) -> Iterator[None]:
    connection.autocommit = True
    try:
        yield
    finally:
        if not connection.closed:
            connection.autocommit = False


def _ask(connection: psycopg.Connection[Any], statement: str, *parameters: str) -> tuple[Any, ...]:
    row: tuple[Any, ...] = connection.execute(statement, parameters).fetchone() or ()
    return row
