"""How long statements may take: those of requests are short, those of commands, results and imports are long.

PostgreSQL ends a statement that takes longer. If it does not answer either, the connection is closed a little later.
SQLite has no such limit; there, `DATABASE_TIMEOUT` limits how long a statement waits for the one writer.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.conf import settings
from django.db import connection

UNLIMITED = 0


class _Process:
    """What holds for statements of this process that say nothing else."""

    def __init__(self) -> None:
        self.seconds: int | None = None


_process = _Process()


def seconds_of_process() -> int:
    """Return how long a statement may take in this process. A command has more time than a server."""
    seconds: int = settings.DATABASE_LONG_TIMEOUT if _process.seconds is None else _process.seconds
    return seconds


def limit_process(seconds: int) -> None:
    """Limit the statements of this process, on the connection of this thread and on later ones."""
    _process.seconds = seconds
    wrapper: Any = connection
    if connection.vendor == "postgresql" and wrapper.connection is not None:
        wrapper.connection.limit_statements(seconds)


@contextmanager
def long_statements() -> Iterator[None]:
    """Let statements of this thread take DATABASE_LONG_TIMEOUT, until the end of the block or of the transaction."""
    if connection.vendor != "postgresql" or seconds_of_process() in (UNLIMITED, settings.DATABASE_LONG_TIMEOUT):
        yield
        return
    wrapper: Any = connection
    with wrapper.statements_limited_to(settings.DATABASE_LONG_TIMEOUT):
        yield
