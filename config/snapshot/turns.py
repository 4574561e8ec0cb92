"""Large changes are applied by one process of this host at a time, so that requests still find a processor."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from django.conf import settings

from config.database.file_locks import file_lock

LONGEST_WAIT = 15.0
"""A process that has been stopped keeps its turn. After this many seconds, others go on beside it."""
_SECONDS_BETWEEN_TRIES = 0.02


@contextmanager
def turn(while_waiting: Callable[[], None]) -> Iterator[None]:
    """Wait until no other process has its turn, and hold it in this block. The end of a process ends its turn."""
    with file_lock(settings.RUNTIME_DIR / "turn.lock", is_needed=False) as try_to_lock:
        deadline = time.monotonic() + LONGEST_WAIT
        while not try_to_lock() and time.monotonic() < deadline:
            while_waiting()
            time.sleep(_SECONDS_BETWEEN_TRIES)
        yield
