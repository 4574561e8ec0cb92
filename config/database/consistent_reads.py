"""Several statements that read the same state of the database, while others go on writing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any

from django.db import connection, transaction

from config.database.engines import is_distributed
from config.database.locks import keep_totals_from_changing
from config.database.timeouts import long_statements


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
    """Keep SQLite's transactions from taking the writer's lock at their start, as settings make
    them do.
    """
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
