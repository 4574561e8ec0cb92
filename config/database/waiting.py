"""Threads that must never wait for the database, because requests that do not need it depend on them."""

from __future__ import annotations

import threading


class WouldWait(Exception):
    """This thread must not wait for the database. Nothing has been done yet, so another thread can do it all."""


class _Thread(threading.local):
    may_wait = True


_thread = _Thread()


def forbid_waiting() -> None:
    """Keep this thread from waiting for the database from now on."""
    _thread.may_wait = False


def may_wait() -> bool:
    return _thread.may_wait


def require_waiting() -> None:
    """Raise WouldWait if this thread must not wait."""
    if not _thread.may_wait:
        raise WouldWait
