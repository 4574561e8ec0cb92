"""Waiting until all workers of Citus have committed.

A transaction on several workers is committed as soon as the coordinator has committed it. If a worker crashes right
then, it has the transaction prepared, and shows nothing of it until Citus has recovered it, once a minute by default.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg

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


class _Process:
    """When this process may recover next."""

    lock = threading.Lock()
    next_recovery = 0.0


def recover(connection: psycopg.Connection[Any]) -> None:
    """Have Citus end what a worker that was lost has prepared, at most once a second in a process.

    A commit that failed may have left a prepared transaction there, which holds its rows. Without this, sending the
    same events again waits for them until Citus looks for such transactions. The connection is outside of a
    transaction. If it fails, its next statement says so.
    """
    with _Process.lock:
        now = time.monotonic()
        if now < _Process.next_recovery:
            return
        _Process.next_recovery = now + _SECONDS_BETWEEN_RECOVERIES
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
