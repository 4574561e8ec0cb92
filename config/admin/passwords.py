"""Checks of passwords, which take half a second of a processor each: one at a time, and behind everything else."""

from __future__ import annotations

import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

from django.contrib.auth.hashers import PBKDF2PasswordHasher

MAX_AT_ONCE = 3
"""One is computed, and the others wait for it. Whatever comes besides is asked to come back."""
_LOWER_PRIORITY = 10


class TooManyChecks(Exception):
    """More passwords are being checked than this process allows."""


class OneAtATimePasswordHasher(PBKDF2PasswordHasher):
    """Django's own, with the same hashes. It computes one hash at a time in each process.

    Raises TooManyChecks if others wait already, so that signing in never takes the threads of other requests.
    """

    def encode(self, password: str, salt: str, iterations: int | None = None) -> str:
        if not _places.acquire(blocking=False):
            raise TooManyChecks
        try:
            return _computing.submit(super().encode, password, salt, iterations).result()
        finally:
            _places.release()


def _step_back() -> None:
    """Let all other threads go first. Only on Linux has a thread a priority of its own."""
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _LOWER_PRIORITY)


_places = threading.BoundedSemaphore(MAX_AT_ONCE)
_computing = ThreadPoolExecutor(max_workers=1, thread_name_prefix="passwords", initializer=_step_back)
