"""Locks by name that one process of all hosts can hold, for work that must not be done twice at a time."""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import quote

from django.conf import settings
from django.db import Error, connection


@contextmanager
def exclusively(name: str) -> Iterator[bool]:
    """Hold the lock of this name unless somebody does: is it ours? It waits for none, and ends with its process.

    It is no transaction: what is done meanwhile begins and commits its own.
    """
    with _advisory_lock(name) if connection.vendor == "postgresql" else _file_lock(name) as is_ours:
        yield is_ours


@contextmanager
def _advisory_lock(name: str) -> Iterator[bool]:
    """Held by a transaction, for a session's lock would be lost or left over behind PgBouncer.

    The transaction has a connection of its own and reads nothing else, so it keeps no vacuum from its work however
    long it lasts.
    """
    key = int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), signed=True)
    holder = connection.copy()
    try:
        holder.set_autocommit(False)
        with holder.cursor() as cursor:
            cursor.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
            cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [key])
            [is_ours] = cursor.fetchone()
        yield is_ours
    finally:
        with suppress(Error):  # a connection that broke has let go of its lock already
            holder.rollback()
        holder.close()


@contextmanager
def _file_lock(name: str) -> Iterator[bool]:
    """SQLite serves one host, whose processes share a folder. The file stays: without it two could hold the lock."""
    path = settings.RUNTIME_DIR / f"{quote(name, safe='')}.lock"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)
