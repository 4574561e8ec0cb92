"""Answers that several statements make together, while others go on writing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from django.db import connection, transaction


@contextmanager
def at_one_moment() -> Iterator[None]:
    """What is read in it is of one moment of the database. It is for reading alone, and keeps nobody from writing.

    In a transaction it does nothing, for that one has settled already what it sees.
    """
    if connection.in_atomic_block:
        yield
        return
    with ExitStack() as entered:
        with _transactions_begin_deferred():
            entered.enter_context(transaction.atomic())
        if connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                # Of a transaction that reads only, no conflict can come that would have to be tried again.
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        yield


@contextmanager
def _transactions_begin_deferred() -> Iterator[None]:
    """On SQLite, whose transactions otherwise take the lock of the one writer as they begin, whatever they do then."""
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
