"""Granian's threads, of which only some serve at the same time.

Any of them may be held up, by a body that does not arrive or by a long computation, so there must be many. But threads
that all compute only take the interpreter from each other. So a thread that is not needed steps aside once it has
served a request, and returns when others are held up.
"""

from __future__ import annotations

import threading
import time
from _thread import LockType
from collections.abc import Callable
from typing import Any

SECONDS_BETWEEN_LOOKS = 0.005
"""A thread that takes longer than this for a request is held up. Most requests take some microseconds."""


class Crew:
    """Calls a function in at most `size` threads, not counting those that are held up."""

    def __init__(self, size: int, *, prepare: Callable[[], None]) -> None:
        self._size = size
        self._prepare = prepare
        """Called in each new thread."""
        self._members = 0
        self._lock = threading.Lock()
        self._threads = threading.local()
        self._begun: dict[object, float] = {}
        """When the requests began that are being served now."""
        self._held_up = 0
        self._aside: list[LockType] = []
        self._has_aside = threading.Event()

    def start(self) -> None:
        threading.Thread(target=self._watch, name="crew", daemon=True).start()

    def call(self, function: Callable[..., bool], *arguments: Any) -> None:
        """Call the function, and return when this thread is needed again, or at once if the function returns False."""
        member = getattr(self._threads, "member", None) or self._join()
        self._begun[member] = time.monotonic()
        try:
            may_step_aside = function(*arguments)
        finally:
            del self._begun[member]
        if may_step_aside and self._members - len(self._aside) - self._held_up > self._size:
            self._step_aside()

    def count_busy(self) -> int:
        """Return how many threads serve a request now, those that are held up included."""
        return len(self._begun)

    def _join(self) -> _Member:
        member = self._threads.member = _Member(self._count)
        self._prepare()
        return member

    def _count(self, change: int) -> None:
        with self._lock:
            self._members += change

    def _step_aside(self) -> None:
        gate = threading.Lock()
        gate.acquire()
        self._aside.append(gate)
        self._has_aside.set()
        gate.acquire()

    def _watch(self) -> None:
        while self._has_aside.wait():
            self._has_aside.clear()
            while self._aside:
                time.sleep(SECONDS_BETWEEN_LOOKS)
                self.call_back(time.monotonic())

    def call_back(self, now: float) -> None:
        """Call threads back if fewer serve than may, because others are held up or have ended."""
        self._held_up = sum(now - begun > SECONDS_BETWEEN_LOOKS for begun in list(self._begun.values()))
        while self._aside and self._members - len(self._aside) - self._held_up < self._size:
            self._aside.pop().release()


class _Member:
    """Stands for a thread. It is deleted when the thread ends."""

    __slots__ = ("_count",)

    def __init__(self, count: Callable[[int], None]) -> None:
        self._count = count
        count(1)

    def __del__(self) -> None:
        self._count(-1)
