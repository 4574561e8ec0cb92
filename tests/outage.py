"""An outage of the database, for tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import OperationalError, connection


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
