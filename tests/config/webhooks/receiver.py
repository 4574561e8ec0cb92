"""A receiver of webhooks on this machine, which keeps what it gets."""

from __future__ import annotations

import queue
import ssl
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple


class Received(NamedTuple):
    path: str
    headers: Any
    body: bytes
    at: float


class Receiver:
    """Answers requests with these statuses, one after the other, and the last one for ever.

    One that is held answers nothing until it is released.
    """

    def __init__(self, statuses: Sequence[int], location: str, *, is_held: bool) -> None:
        self.received: queue.Queue[Received] = queue.Queue()
        self._released = threading.Event()
        self.release = self._released.set
        if not is_held:
            self.release()
        outer, remaining = self, [*statuses]

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.received.put(Received(self.path, self.headers, body, time.time()))
                outer._released.wait()
                status = remaining.pop(0) if len(remaining) > 1 else remaining[0]
                self.send_response(status)
                if location:
                    self.send_header("Location", location)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.handle_error = lambda *_: None  # type: ignore[method-assign]  # a client may hang up
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook?a=b"

    def get(self, timeout: float = 30) -> Received:
        return self.received.get(timeout=timeout)


@contextmanager
def receiving(
    *statuses: int, location: str = "", context: ssl.SSLContext | None = None, is_held: bool = False
) -> Iterator[Receiver]:
    receiver = Receiver(statuses, location, is_held=is_held)
    if context is not None:
        receiver.server.socket = context.wrap_socket(receiver.server.socket, server_side=True)
    thread = threading.Thread(target=receiver.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield receiver
    finally:
        receiver.release()
        receiver.server.shutdown()
        receiver.server.server_close()
        thread.join()
