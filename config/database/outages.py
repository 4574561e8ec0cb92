"""Outages of the database: how errors show one, and how evaluations do without it meanwhile."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeVar

from django.db import DatabaseError, Error, InterfaceError, OperationalError, close_old_connections, connection

from config.database.connections import require_waiting

logger = logging.getLogger(__name__)

# Codes of PostgreSQL that Python's database API puts into a class with others of another kind.
_STATES = ("25006", "25P03", "25P04")
"""The database accepts reads only, or it ended a transaction that took too long, with its connection."""
_INTERNAL = "XX000"
_LOST_WORKER = ("connect", "failed to prepare transaction", "could not commit transaction for shard")
"""A coordinator of Citus says so, with the code for a defect, if it has lost a worker in the middle of a statement."""
_PROGRAM_LIMITS = "54"
_TOO_COMPLEX = ("parser stack overflow", "Expression tree is too large", "too many ")
"""A statement that is too complex for the database will always be so. SQLite has no code for it."""

_SECONDS_BETWEEN_TRIES = 1.0

Result = TypeVar("Result")


def is_outage(error: BaseException | None) -> bool:
    """Return whether the state of the database is the cause, not the statement. PostgreSQL's error codes show it."""
    if not isinstance(error, (DatabaseError, InterfaceError)):
        return False
    code = getattr(error.__cause__, "sqlstate", None) or ""
    if code.startswith(_PROGRAM_LIMITS) or str(error).startswith(_TOO_COMPLEX):
        return False
    if code == _INTERNAL:
        return any(words in str(error) for words in _LOST_WORKER)
    return code in _STATES or isinstance(error, (OperationalError, InterfaceError))


def first_line(error: Exception) -> str:
    """Return the first line of an error of the database, which has no password in it."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0].rstrip(".")


class Circuit:
    """Calls of one kind that use the database but can do without. They fail at once while it is away.

    It is away if the last call failed, or if a call has been waiting for longer than `patience` seconds. One call a
    second then tries again. In a worker, the calls are made by threads of their own, so that the caller never waits
    for longer than that.
    """

    def __init__(self, what: str, *, patience: float) -> None:
        self._what = what
        self._patience = patience
        self._lock = threading.Lock()
        self._running: dict[object, float] = {}
        self._is_open = False
        self._next_try = 0.0

    def call(self, function: Callable[..., Result], *arguments: Any) -> Result:
        """Return the result of the function. Raises OperationalError if the database is away.

        Raises WouldWait in a thread that must not wait for the database.
        """
        future: Future[Result] = Future()
        self._begin(future)
        future.add_done_callback(self._end)
        make = partial(_make_call, future, partial(function, *arguments))
        if _threads.are_running and not connection.in_atomic_block:
            _threads.submit(make)
        else:
            make()
        try:
            return future.result(self._patience)
        except TimeoutError:
            if not future.cancel() and future.done():  # it has ended just now
                return future.result()
            raise self._away() from None

    def _begin(self, call: object) -> None:
        now = time.monotonic()
        with self._lock:
            is_stuck = now - next(iter(self._running.values()), now) > self._patience
            if is_stuck and not self._is_open:
                self._open()
            if is_stuck or (self._is_open and now < self._next_try):
                raise self._away()
            require_waiting()  # which another thread may do; it is no answer of the database
            self._next_try = now + _SECONDS_BETWEEN_TRIES
            self._running[call] = now

    def _end(self, call: Future[Any]) -> None:
        error = None if call.cancelled() else call.exception()
        has_failed = is_outage(error)
        has_answered = not call.cancelled() and (error is None or isinstance(error, DatabaseError))
        with self._lock:
            del self._running[call]
            # A call that ended without a word of the database has tried nothing.
            self._next_try = time.monotonic() + _SECONDS_BETWEEN_TRIES if has_failed else 0.0
            if has_failed and not self._is_open:
                self._open()
            elif has_answered and not has_failed and self._is_open:
                self._is_open = False
                logger.warning("The database answers again (%s)", self._what)

    def _open(self) -> None:
        self._is_open = True
        logger.warning("The database does not answer, and is tried once a second (%s)", self._what)

    def _away(self) -> OperationalError:
        return OperationalError(f"The database does not answer ({self._what}).")


def _make_call(future: Future[Any], function: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = function()
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(result)


class _Threads:
    """Threads that use the database for others. They are daemons, so that one that hangs does not hold the process."""

    def __init__(self) -> None:
        self.are_running = False
        self._jobs: SimpleQueue[Callable[[], None]] = SimpleQueue()

    def start(self, count: int) -> None:
        self.are_running = True
        for number in range(count):
            threading.Thread(target=self._work, name=f"database-{number}", daemon=True).start()

    def submit(self, job: Callable[[], None]) -> None:
        self._jobs.put(job)

    def _work(self) -> None:
        while True:
            job = self._jobs.get()
            with suppress(Error):
                close_old_connections()
            job()


_threads = _Threads()
start_threads = _threads.start
