"""Large changes are applied by one process of this host at a time, so that requests still find a processor."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from django.conf import settings

LONGEST_WAIT = 15.0
"""A process that has been stopped keeps its turn. After this many seconds, others go on beside it."""
_SECONDS_BETWEEN_TRIES = 0.02


@contextmanager
def turn(while_waiting: Callable[[], None]) -> Iterator[None]:
    """Wait until no other process has its turn, and hold it in this block. The end of a process ends its turn."""
    try:
        descriptor = os.open(settings.RUNTIME_DIR / "turn.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:  # such as a full disk, for which no change may wait
        yield
        return
    try:
        deadline = time.monotonic() + LONGEST_WAIT
        while not _is_ours(descriptor) and time.monotonic() < deadline:
            while_waiting()
            time.sleep(_SECONDS_BETWEEN_TRIES)
        yield
    finally:
        os.close(descriptor)


def _is_ours(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
