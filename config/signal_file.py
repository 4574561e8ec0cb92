"""One integer that all processes of a host share: when it differs from what was seen last, configuration has changed.

The integer is random, not a counter: two writers at once need no lock, and no value ever comes back. A torn read is
harmless too, for it differs from both the old value and the new, and so makes its reader look once more.
"""

from __future__ import annotations

import mmap
import os
import secrets
import struct
from functools import cache
from pathlib import Path
from typing import NamedTuple

from django.conf import settings

_SIZE = 8
_NAME = "signal"


class _Shared(NamedTuple):
    memory: mmap.mmap
    inode: int


@cache
def _shared(folder: Path) -> _Shared:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(folder / _NAME, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if os.fstat(descriptor).st_size < _SIZE:
            os.ftruncate(descriptor, _SIZE)
        return _Shared(mmap.mmap(descriptor, _SIZE), os.fstat(descriptor).st_ino)
    finally:
        os.close(descriptor)


def read() -> int:
    """The integer as it stands. Compare it with the one seen before reading the database, never with one seen after."""
    value: int = struct.unpack_from("=Q", _shared(settings.RUNTIME_DIR).memory)[0]
    return value


def poke() -> None:
    """Tell every process of this host to look at the change log before it answers its next request."""
    struct.pack_into("=Q", _shared(settings.RUNTIME_DIR).memory, 0, secrets.randbits(64))


def reopen_if_replaced() -> None:
    """Share the file that is there now, where somebody removed the one that this process opened."""
    try:
        inode = os.stat(settings.RUNTIME_DIR / _NAME).st_ino
    except FileNotFoundError:
        inode = 0
    if inode != _shared(settings.RUNTIME_DIR).inode:
        _shared.cache_clear()
        poke()
