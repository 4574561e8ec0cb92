"""Bodies that the fast lane has read, and that Django may have to read again."""

from __future__ import annotations

from typing import Any


class ReplayedInput:
    """A `wsgi.input` that begins with what was read of it already."""

    def __init__(self, head: bytes, rest: Any) -> None:
        self._head = head
        self._rest = rest

    def read(self, size: int = -1) -> bytes:
        """Read so many bytes, as from the stream itself: fewer only at its end."""
        if size is None or size < 0:
            head, self._head = self._head, b""
            return head + bytes(self._rest.read())
        head, self._head = self._head[:size], self._head[size:]
        return head if len(head) == size else head + bytes(self._rest.read(size - len(head)))

    def readline(self, size: int = -1) -> bytes:
        """Read up to the end of a line. Django asks for this in forms only."""
        line = bytearray()
        while (size < 0 or len(line) < size) and (byte := self.read(1)):
            line += byte
            if byte == b"\n":
                break
        return bytes(line)
