"""Bodies of requests: reading them in time, and in a limited number of threads.

A read of granian's waits as long as the connection lasts. So what is being read is noted here, for the timekeeper.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from config.serving.gateway.exchange import Exchange

SECONDS_WHEN_CROWDED = 1.0
"""How long a body may take if more than half of the places are taken."""
MOST_DISCARDED = 64 * 1024**2
SECONDS_TO_DISCARD = 5.0
"""How much of a body is thrown away, and for how long."""
_PIECE = 2**16


class TooManyBodies(Exception):
    """So many bodies are being read that this one must not hold up another thread."""


class BodyCutOff(OSError):
    """The body has ended early: the client is gone, or was too slow."""


class Withheld:
    """The `wsgi.input` of a request whose body must not be read."""

    __slots__ = ()

    def read(self, size: int = -1) -> bytes:
        raise BodyCutOff

    def readline(self, size: int = -1) -> bytes:
        raise BodyCutOff


class Body(Withheld):
    """The `wsgi.input` of a request whose body may be read: once, and not by lines."""

    __slots__ = ("_is_announced", "_raw", "_readers", "begun", "exchange")

    def __init__(self, exchange: Exchange, raw: Any, readers: Readers, begun: float) -> None:
        self.exchange = exchange
        self.begun = begun
        self._raw = raw
        self._is_announced = "CONTENT_LENGTH" in exchange.environ
        self._readers = readers

    def read(self, size: int = -1) -> bytes:
        """Read so many bytes, or fewer at the end of a body in chunks. Raises TooManyBodies or BodyCutOff."""
        piece = self._readers.read(self, self._raw.read, size)
        if self._is_announced and len(piece) < size:
            raise BodyCutOff
        self.exchange.is_read = True
        return piece


class Readers:
    """The threads that read a body, at most so many, and the bodies that they read."""

    def __init__(self, most: int, seconds: float) -> None:
        self._most = most
        self._seconds = seconds
        self._reading: dict[Body, float] = {}
        self._cut: set[Body] = set()

    def read(self, body: Body, read: Callable[[int], bytes], size: int) -> bytes:
        """Raises TooManyBodies, or BodyCutOff if the body was late."""
        if self.count() >= self._most:
            raise TooManyBodies
        self._reading[body] = body.begun
        try:
            piece = read(size)
        finally:
            is_cut = self._reading.pop(body, None) is None
        if is_cut:
            self._cut.discard(body)
            raise BodyCutOff
        return piece

    def count(self) -> int:
        """Return how many threads wait for a body."""
        return len(self._reading) + len(self._cut)

    def cut_late(self, now: float) -> list[Body]:
        """Return the bodies that are late now. Their reads will fail, even if the rest arrives after all."""
        is_crowded = self.count() > self._most // 2
        latest = now - (min(SECONDS_WHEN_CROWDED, self._seconds) if is_crowded else self._seconds)
        late = [body for body, begun in list(self._reading.items()) if begun < latest]
        return [body for body in late if self._take_from_reader(body)]

    def _take_from_reader(self, body: Body) -> bool:
        self._cut.add(body)
        if self._reading.pop(body, None) is None:  # it has arrived after all
            self._cut.discard(body)
            return False
        return True

    def is_held_up_by(self, body: Body) -> bool:
        """Return whether a thread still waits for a body that was cut off."""
        return body in self._cut


class Discarder:
    """Reads bodies only to throw them away, in a limited number of threads.

    Many clients send all of a body before they read the answer. If the connection were closed meanwhile, they would
    report a broken pipe instead.
    """

    def __init__(self, most: int) -> None:
        self._places = threading.BoundedSemaphore(most)
        self._deadlines: dict[Exchange, float] = {}

    def discard(self, exchange: Exchange, raw: Any) -> bool:
        """Read the rest of the body of a request, and return whether it has ended."""
        if not self._places.acquire(blocking=False):
            return False
        left, deadline = MOST_DISCARDED, time.monotonic() + SECONDS_TO_DISCARD
        self._deadlines[exchange] = deadline
        try:
            while left > 0 and time.monotonic() < deadline:
                piece = raw.read(_PIECE)
                if not piece:
                    return True
                left -= len(piece)
        finally:
            del self._deadlines[exchange]
            self._places.release()
        return False

    def count(self) -> int:
        """Return how many threads throw a body away."""
        return len(self._deadlines)

    def late(self, now: float) -> list[Exchange]:
        """Return the requests that have their answer, but whose body has not ended in time."""
        deadlines = list(self._deadlines.items())
        return [exchange for exchange, deadline in deadlines if deadline < now and exchange.answered_at is not None]
