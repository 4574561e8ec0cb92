"""A client of event streams on a bare socket, and the messages that it has received."""

from __future__ import annotations

import json
import socket
import threading
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from tests.system.server import Server, wait_until


def stream_url(server: Server, *, key: str | None = None, scope: str = "client") -> str:
    """The address that a bulk evaluation gives, with the revision that it was answered at as a
    fragment.
    """
    headers = server.headers(scope, key=key)
    answer = server.ask("POST", "/ofrep/v1/evaluate/flags", json={"context": {}}, key=headers["Authorization"][7:])
    assert answer.status_code == 200
    [stream] = answer.json()["eventStreams"]
    return f"{stream['url']}#{answer.json()['metadata']['revision']}"


class Stream(threading.Thread):
    """One open stream, read until it ends. It says that it has heard of the revision in the
    fragment of its address.
    """

    def __init__(self, url: str, *, last_event_id: str | None = None) -> None:
        super().__init__(daemon=True)
        address = urlsplit(url)
        last_event_id = last_event_id or address.fragment
        lines = [f"GET {address.path}?{address.query} HTTP/1.1", "Host: localhost", "Connection: close"]
        if last_event_id:
            lines.append(f"Last-Event-ID: {last_event_id}")
        self._socket = socket.create_connection((address.hostname, address.port), timeout=60)
        self._socket.sendall("\r\n".join([*lines, "", ""]).encode())
        self.received = b""
        self.has_ended = False
        self.start()
        wait_until(lambda: b"retry: " in self.received or self.has_ended, "the stream opens", 30)

    def run(self) -> None:
        with suppress(OSError):
            while chunk := self._socket.recv(2**16):
                self.received += chunk
        self._socket.close()
        self.has_ended = True

    @property
    def status(self) -> int:
        return int(self.received.split()[1])

    @property
    def is_complete(self) -> bool:
        """Whether the answer came to its proper end."""
        return self.has_ended and self.received.endswith(b"0\r\n\r\n")

    @property
    def events(self) -> list[dict[str, Any]]:
        """The data of each event so far, with its id."""
        events = []
        for text in self.received.replace(b"\r\n", b"\n").split(b"\n\n"):
            fields = dict(line.split(b": ", 1) for line in text.split(b"\n") if b": " in line)
            if b"data" in fields:
                assert fields[b"event"] == b"message"
                events.append({"id": fields[b"id"].decode(), **json.loads(fields[b"data"])})
        return events

    def wait_for_events(self, count: int, seconds: float = 30) -> list[dict[str, Any]]:
        wait_until(lambda: len(self.events) >= count, f"{count} events come", seconds)
        return self.events

    def wait_for_end(self, seconds: float = 30) -> None:
        wait_until(lambda: self.has_ended, "the stream ends", seconds)

    def close(self) -> None:
        with suppress(OSError):  # it has ended already
            self._socket.shutdown(socket.SHUT_RDWR)
        self.join()
