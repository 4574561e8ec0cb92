"""Threads that work on one database, each on a connection of its own."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

SECONDS = 30


@contextmanager
def database_for_threads(folder: Path) -> Iterator[None]:
    """The database of the test as threads can share it: SQLite's in memory, which they cannot, is a file meanwhile."""
    if connection.vendor != "sqlite":
        yield
        return
    file = folder / "shared.sqlite3"
    with connection.cursor() as cursor:
        cursor.execute("VACUUM INTO %s", [str(file)])
    with closing(sqlite3.connect(file)) as first:  # as threads that open it together would refuse each other
        first.execute("PRAGMA journal_mode=WAL")
    in_memory, name = connection.connection, connection.settings_dict["NAME"]
    connection.connection, connection.settings_dict["NAME"] = None, str(file)  # threads to come read the same dict
    try:
        yield
    finally:
        connection.close()
        connection.connection, connection.settings_dict["NAME"] = in_memory, name


class Threads:
    """Calls under way, each in a thread of its own, which closes its connection."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(max_workers=64)

    def start(self, call: Callable[..., Any], *arguments: Any) -> Future[Any]:
        return self._pool.submit(self._run, call, *arguments)

    def _run(self, call: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return call(*arguments)
        finally:
            connection.close()

    def join(self) -> None:
        self._pool.shutdown()


@pytest.fixture
def threads(transactional_db: None, tmp_path: Path) -> Iterator[Threads]:
    """Threads on the database of the test."""
    threads = Threads()
    with database_for_threads(tmp_path):
        yield threads
        threads.join()


class Gate:
    """Where a thread waits until the test lets it pass."""

    def __init__(self) -> None:
        self._arrived, self._opened = threading.Event(), threading.Event()

    def pass_through(self) -> None:
        """Arrive, and wait. Once it is open, it stays so."""
        self._arrived.set()
        assert self._opened.wait(SECONDS)

    def wait_for_arrival(self) -> None:
        assert self._arrived.wait(SECONDS)

    def open(self) -> None:
        self._opened.set()
