"""Bodies of requests: reading them in time, and in a limited number of threads.

A read of granian's waits as long as the connection lasts. So what is being read is noted here, for the timekeeper.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from config.api.authentication import secret_in
from config.serving.gateway.exchange import Exchange

SECONDS_WHEN_CROWDED = 1.0
"""How long a body may take if more than half of the places are taken."""
MAX_DISCARDED = 64 * 1024**2
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


def sender_of(exchange: Exchange) -> str:
    """Return what tells the senders of bodies apart: their key, which was checked before, however it is sent."""
    return secret_in(exchange.environ) or ""


class Readers:
    """The threads that read a body, and the bodies that they read: at most so many, also with one key."""

    def __init__(self, most: int, seconds: float, *, most_of_one: int | None = None) -> None:
        self._most = most
        self._most_of_one = most if most_of_one is None else most_of_one
        self._seconds = seconds
        self._reading: dict[Body, float] = {}
        self._cut: set[Body] = set()

    def read(self, body: Body, read: Callable[[int], bytes], size: int) -> bytes:
        """Raises TooManyBodies, or BodyCutOff if the body was late."""
        number = self.count()
        if number >= self._most or (number >= self._most_of_one and self._has_enough(body)):
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

    def _has_enough(self, body: Body) -> bool:
        """Return whether the sender of a body has taken all places that one may take."""
        sender = sender_of(body.exchange)
        others = [*list(self._reading), *list(self._cut)]  # copied at once, because other threads change them
        return sum(sender_of(other.exchange) == sender for other in others) >= self._most_of_one

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

    def __init__(self, most: int, *, most_of_one: int | None = None) -> None:
        self._most = most
        self._most_of_one = most if most_of_one is None else most_of_one
        self._lock = threading.Lock()
        self._deadlines: dict[Exchange, float] = {}

    def discard(self, exchange: Exchange, raw: Any) -> bool:
        """Read the rest of the body of a request, and return whether it has ended."""
        left, deadline = MAX_DISCARDED, time.monotonic() + SECONDS_TO_DISCARD
        if not self._take_place(exchange, deadline):
            return False
        try:
            while left > 0 and time.monotonic() < deadline:
                piece = raw.read(_PIECE)
                if not piece:
                    return True
                left -= len(piece)
        finally:
            with self._lock:
                del self._deadlines[exchange]
        return False

    def _take_place(self, exchange: Exchange, deadline: float) -> bool:
        sender = sender_of(exchange)
        with self._lock:
            of_sender = sum(sender_of(other) == sender for other in self._deadlines)
            is_free = len(self._deadlines) < self._most and of_sender < self._most_of_one
            if is_free:
                self._deadlines[exchange] = deadline
        return is_free

    def count(self) -> int:
        """Return how many threads throw a body away."""
        return len(self._deadlines)

    def late(self, now: float) -> list[Exchange]:
        """Return the requests that have their answer, but whose body has not ended in time."""
        deadlines = list(self._deadlines.items())
        return [exchange for exchange, deadline in deadlines if deadline < now and exchange.answered_at is not None]
