"""What granian hands to the gateway, and clients that are slow."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from tests.config.api.wire import environ_of
from tests.threads import SECONDS


class Protocol:
    """Keeps the first answer, as granian does."""

    def __init__(self) -> None:
        self.status: int | None = None
        self.headers: dict[str, str] = {}
        self.body = b""
        self._is_answered = threading.Event()

    def response_bytes(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        if not self._is_answered.is_set():
            self.status, self.headers, self.body = status, dict(headers), body
            self._is_answered.set()

    def response_iter(self, status: int, headers: list[tuple[str, str]], body: Any) -> None:
        parts = []
        try:
            while True:
                parts.append(body.__next__())
        except StopIteration:
            body.close()
        self.response_bytes(status, headers, b"".join(parts))

    def wait(self) -> None:
        assert self._is_answered.wait(SECONDS)


class Slow:
    """A body of which nothing arrives before `finish`, or never the rest."""

    def __init__(self) -> None:
        self.is_read = threading.Event()
        self._rest = b""
        self._is_over = threading.Event()

    def read(self, size: int) -> bytes:
        self.is_read.set()
        assert self._is_over.wait(SECONDS)
        return self._rest

    def finish(self, rest: bytes = b"") -> None:
        self._rest = rest
        self._is_over.set()


def scope_of(method: str, path: str, body: bytes, headers: Mapping[str, str | None]) -> dict[str, Any]:
    """Return what granian says of a request."""
    content_type = "application/json" if body else None
    environ = environ_of(
        method, path, body, {"Host": "testserver", "Content-Type": content_type, **headers}, "127.0.0.1"
    )
    if not body:
        environ.pop("CONTENT_LENGTH", None)
    return environ
