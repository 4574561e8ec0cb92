"""Locks between the processes of this host, each on a file of its own."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path


@contextmanager
def file_lock(path: Path, *, is_needed: bool = True) -> Iterator[Callable[[], bool]]:
    """Yield a function that tries to lock the file until the end of the block, and returns whether it did.

    The lock ends with the process, too. The file is never deleted, or two processes could hold the lock. If it cannot
    be opened, as on a full disk, this raises OSError, or where the lock is not needed, each try succeeds.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        if is_needed:
            raise
        yield lambda: True
        return
    try:
        yield partial(_lock, descriptor)
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
