"""One integer that all processes of a host share: if it differs from the last one seen,
configuration has changed.

The integer is random, not a counter, so two writers need no lock and no value returns. A torn read
is harmless as well: it differs from both the old value and the new one, so its reader looks once
more.
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
    """Write the file, so that it has its place on the disk. Without one, a full disk kills who writes to the memory."""
    try:
        os.pwrite(descriptor, bytes(_SIZE), 0)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def read() -> int:
    """Return the integer. Compare it with one that was read before the database, never with one
    read after it.
    """
    return _shared().integers[0]


def signal_change() -> None:
    """Make every process of this host look at the change log before it answers its next request."""
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
