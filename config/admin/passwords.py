"""Checks of passwords. Each takes half a second of processor time, so they run one at a time with low priority."""

from __future__ import annotations

import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

from django.contrib.auth.hashers import PBKDF2PasswordHasher

MAX_AT_ONCE = 3
"""One is computed, and the others wait. Further requests must come back later."""
_LOWER_PRIORITY = 10


class TooManyChecks(Exception):
    """More passwords are being checked than this process allows."""


class OneAtATimePasswordHasher(PBKDF2PasswordHasher):
    """Django's hasher, with the same hashes, which computes one hash at a time in each process.

    Raises TooManyChecks if others wait already, so that signing in never blocks the threads of other requests.
    """

    def encode(self, password: str, salt: str, iterations: int | None = None) -> str:
        if not _places.acquire(blocking=False):
            raise TooManyChecks
        try:
            return _computing.submit(super().encode, password, salt, iterations).result()
        finally:
            _places.release()


def _step_back() -> None:
    """Lower the priority of this thread. Only on Linux do threads have one."""
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _LOWER_PRIORITY)


_places = threading.BoundedSemaphore(MAX_AT_ONCE)
_computing = ThreadPoolExecutor(max_workers=1, thread_name_prefix="passwords", initializer=_step_back)
