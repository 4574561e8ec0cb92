"""Threads that must never wait for the database, because requests that do not need it depend on them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class WouldWait(BaseException):
    """This thread must not wait for the database. Nothing has been done yet, so another thread can do it all.

    It is no Exception, because Django and DRF would answer one.
    """


class _Thread(threading.local):
    may_wait = True


_thread = _Thread()


def forbid_waiting() -> None:
    """Keep this thread from waiting for the database from now on."""
    _thread.may_wait = False


@contextmanager
def waiting_forbidden() -> Iterator[None]:
    """Keep this thread from waiting for the database in this block."""
    before, _thread.may_wait = _thread.may_wait, False
    try:
        yield
    finally:
        _thread.may_wait = before


def may_wait() -> bool:
    return _thread.may_wait


def require_waiting() -> None:
    """Raise WouldWait if this thread must not wait."""
    if not _thread.may_wait:
        raise WouldWait
