"""One integer that all processes of a host share. When it changes, configuration has changed.

The integer is random, not a counter, so two writers need no lock and no value comes back. A torn read differs from the
old value and from the new one, so its reader only looks once more than it must.
"""

from __future__ import annotations

import mmap
import os
import secrets
from functools import cache
from pathlib import Path
from typing import NamedTuple

from django.conf import settings

_SIZE = 8
_NAME = "signal"


class _Shared(NamedTuple):
    integers: memoryview
    """The one integer in the file."""
    inode: int


@cache
def _shared() -> _Shared:
    folder = settings.RUNTIME_DIR
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(folder / _NAME, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if os.fstat(descriptor).st_size < _SIZE:
            _allocate(descriptor, folder / _NAME)
        return _Shared(memoryview(mmap.mmap(descriptor, _SIZE)).cast("Q"), os.fstat(descriptor).st_ino)
    finally:
        os.close(descriptor)


def _allocate(descriptor: int, path: Path) -> None:
    """Reserve space on the disk. Without it, a full disk would kill a process that writes to the mapped memory."""
    try:
        os.pwrite(descriptor, bytes(_SIZE), 0)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def read() -> int:
    """Return the integer. Read it before the database, never after, to compare it later."""
    return _shared().integers[0]


def signal_change() -> None:
    """Have every process of this host look at the change log before it answers its next request."""
    _shared().integers[0] = secrets.randbits(64)


def reopen_if_replaced() -> None:
    """Open the current file if somebody removed the one that this process had opened."""
    try:
        inode = os.stat(settings.RUNTIME_DIR / _NAME).st_ino
    except FileNotFoundError:
        inode = 0
    if inode != _shared().inode:
        _shared.cache_clear()
        signal_change()
