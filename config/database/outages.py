"""Outages of the database: how errors show one, and how to keep calls away from it meanwhile."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import DatabaseError, InterfaceError, OperationalError

from config.database.waiting import require_waiting

logger = logging.getLogger(__name__)

# Codes of PostgreSQL that Python's database API puts into a class with others of another kind.
_STATES = ("25006", "25P03", "25P04")
"""The database accepts reads only, or it ended a transaction that took too long, with its
connection.
"""
_PROGRAM_LIMITS = "54"
"""A statement that is too complex for the database will always be so."""

_SECONDS_BETWEEN_TRIES = 1.0


def is_outage(error: BaseException) -> bool:
    """Return whether the state of the database is the cause, not the statement. PostgreSQL's error
    codes show it.
    """
    if not isinstance(error, (DatabaseError, InterfaceError)):
        return False
    code = getattr(error.__cause__, "sqlstate", None) or ""
    if code.startswith(_PROGRAM_LIMITS):
        return False
    return code in _STATES or isinstance(error, (OperationalError, InterfaceError))


class Circuit:
    """Lets calls of one kind fail at once while the database is away, so that they hold no thread.

    It is away if the last call failed, or if a call has been waiting for longer than `patience` seconds. One call a
    second then tries again.
    """

    def __init__(self, what: str, *, patience: float) -> None:
        self._what = what
        self._patience = patience
        self._lock = threading.Lock()
        self._running: dict[object, float] = {}
        self._is_open = False
        self._next_try = 0.0

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Make one call in this block. Raises OperationalError at once if the database is away.

        Raises WouldWait in a thread that must not wait for the database.
        """
        call = object()
        self._begin(call)
        try:
            yield
        except Exception as error:
            self._end(call, has_failed=is_outage(error))
            raise
        self._end(call, has_failed=False)

    def _begin(self, call: object) -> None:
        now = time.monotonic()
        with self._lock:
            is_stuck = now - next(iter(self._running.values()), now) > self._patience
            if is_stuck and not self._is_open:
                self._open()
            if is_stuck or (self._is_open and now < self._next_try):
                raise OperationalError(f"The database does not answer ({self._what}).")
            require_waiting()  # which another thread may do; it is no answer of the database
            self._next_try = now + _SECONDS_BETWEEN_TRIES
            self._running[call] = now

    def _end(self, call: object, *, has_failed: bool) -> None:
        with self._lock:
            del self._running[call]
            if has_failed:
                self._next_try = time.monotonic() + _SECONDS_BETWEEN_TRIES
            if has_failed and not self._is_open:
                self._open()
            elif not has_failed and self._is_open:
                self._is_open = False
                logger.warning("The database answers again (%s)", self._what)

    def _open(self) -> None:
        self._is_open = True
        logger.warning("The database does not answer, and is tried once a second (%s)", self._what)
