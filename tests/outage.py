"""Outages of the database, for tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from django.db import DatabaseError, OperationalError, connection
from django.db.utils import DatabaseErrorWrapper


@contextmanager
def database_away(*, for_writes_alone: bool = False) -> Iterator[list[str]]:
    """Let every statement fail in this block, and yield the statements that were tried."""
    tried: list[str] = []

    def fail(execute: Any, sql: str, *rest: Any) -> Any:
        if for_writes_alone and sql.startswith("SELECT"):
            return execute(sql, *rest)
        tried.append(sql)
        raise OperationalError("the database is away")

    with connection.execute_wrapper(fail):
        yield tried


@contextmanager
def statement_fails(number: int) -> Iterator[list[str]]:
    """Let the statement with this number fail in this block, and yield it and those that were tried after it."""
    numbers = count()
    tried: list[str] = []

    def fail(execute: Any, sql: str, *rest: Any) -> Any:
        # Savepoints are undone all the same, or the transaction of the test would be lost.
        if sql.startswith("ROLLBACK") or (tried and sql.startswith("RELEASE")) or next(numbers) < number:
            return execute(sql, *rest)
        tried.append(sql)
        if len(tried) == 1:
            raise OperationalError("the database is away")
        return execute(sql, *rest)

    with connection.execute_wrapper(fail):
        yield tried


def from_postgresql(code: str) -> DatabaseError:
    """Return what Django makes of an error of PostgreSQL with this code."""
    wrapper = SimpleNamespace(Database=psycopg, errors_occurred=False)
    with pytest.raises(DatabaseError) as raised, DatabaseErrorWrapper(wrapper):
        raise psycopg.errors.lookup(code)("as PostgreSQL words it")
    return raised.value
