"""Transactions whose statements all see the same state, and that commit on several servers of Citus together."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from typing import Any

from django.db import Error, connection, transaction

from config.database.connections import long_statements
from config.database.engines import is_distributed

# Two numbers, unlike those of `experiments.models.locks`.
_SNAPSHOTS = "(3, 0)"


@contextmanager
def read_consistently() -> Iterator[None]:
    """Open a read-only transaction in which all statements see the same state. It blocks no writer.

    Inside a transaction it does nothing, because that one already determines what statements see.
    """
    if connection.in_atomic_block:
        yield
        return
    with ExitStack() as entered:
        with keep_totals_from_changing() if is_distributed() else nullcontext():
            with _transactions_begin_deferred():
                entered.enter_context(transaction.atomic())
            entered.enter_context(long_statements())
            if connection.vendor == "postgresql":
                with connection.cursor() as cursor:
                    # A transaction that only reads never fails on a conflict, so nothing needs a retry.
                    cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            begin_on_workers()
        yield


def keep_first_snapshot() -> None:
    """Have all statements of the caller's transaction see the state that the first one sees. They may write.

    A write of a row that another transaction has changed since then fails.
    """
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        begin_on_workers()


def begin_on_workers() -> None:
    """On Citus, have each worker take the snapshot that it keeps until the transaction ends.

    A worker has a snapshot for each of its connections, so there must be one. Other connections would begin later.
    """
    if not is_distributed():
        return
    wrapper: Any = connection
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL citus.max_adaptive_executor_pool_size = 1")
        cursor.execute(f"SELECT 1 FROM {min(wrapper.distributed_tables)} LIMIT 1")  # noqa: S608 (no data)


@contextmanager
def _transactions_begin_deferred() -> Iterator[None]:
    """Keep SQLite's transactions from taking the writer's lock at their start, as settings make them do."""
    if connection.vendor != "sqlite":
        yield
        return
    sqlite: Any = connection
    sqlite.ensure_connection()  # which sets the mode
    mode, sqlite.transaction_mode = sqlite.transaction_mode, "DEFERRED"
    try:
        yield
    finally:
        sqlite.transaction_mode = mode


def commit_in_two_phases() -> None:
    """On Citus, commit this transaction on the coordinator and its workers, or on none of them.

    Call it where a transaction writes rows of one user and others on the coordinator, such as counts. If all rows on
    workers are in one part of a table, Citus commits on that worker first. If the coordinator crashed then, it would
    lack its own rows. Where a copy begins, even of no row, Citus commits in two phases.
    """
    if not is_distributed():
        return
    wrapper: Any = connection
    copy = f"COPY {min(wrapper.distributed_tables)} (user_id) FROM STDIN"
    with connection.cursor() as cursor, connection.wrap_database_errors, cursor.copy(copy):
        pass


def keep_snapshots_from_beginning() -> None:
    """On Citus, let no reader begin until this transaction has committed on every worker. Call it last.

    A reader would otherwise take one snapshot on the coordinator before the commit, and another one on a worker after
    it, and read sums of other totals than those that it reads.
    """
    if is_distributed():
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT pg_advisory_xact_lock{_SNAPSHOTS}")


@contextmanager
def keep_totals_from_changing() -> Iterator[None]:
    """On Citus, let no transaction that changes totals commit in this block, in which a reader takes its snapshots.

    The reader's transaction begins in the block. A lock of its own would be too late, because the statement that waits
    for it takes a snapshot before.
    """
    postgresql: Any = connection
    postgresql.ensure_connection()
    with _in_transaction_beside() if postgresql.connection.is_pooled else _in_session():
        yield


@contextmanager
def _in_session() -> Iterator[None]:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT pg_advisory_lock_shared{_SNAPSHOTS}")
        try:
            yield
            cursor.execute(f"SELECT pg_advisory_unlock_shared{_SNAPSHOTS}")
        except BaseException:
            connection.close()  # the lock would outlive a transaction that has failed
            raise


@contextmanager
def _in_transaction_beside() -> Iterator[None]:
    """Hold the lock on another connection: a pool gives this one's sessions to others."""
    holder = connection.copy()
    try:
        holder.set_autocommit(False)
        with holder.cursor() as cursor:
            cursor.execute(f"SELECT pg_advisory_xact_lock_shared{_SNAPSHOTS}")
        yield
    finally:
        with suppress(Error):
            holder.rollback()
        holder.close()
