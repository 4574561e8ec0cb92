"""A relay between a server and PostgreSQL, whose connections can fall silent, as after a failover."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit, urlunsplit


class Relay:
    """Accepts connections and passes on what comes, until it is told to fall silent."""

    def __init__(self, host: str, port: int) -> None:
        self._target = host, port
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=256)
        self._is_silent = threading.Event()
        self._open: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self.port: int = self._listening.getsockname()[1]
        self._acceptor = threading.Thread(target=self._accept, daemon=True)
        self._acceptor.start()

    def silence(self) -> None:
        """Pass on nothing more on the connections of this moment, and close none of them. New ones work."""
        self._is_silent.set()
        self._is_silent = threading.Event()

    def close(self) -> None:
        _shut_down([self._listening])
        self._acceptor.join()
        _shut_down(self._open)
        for thread in self._threads:
            thread.join()
        for opened in (self._listening, *self._open):
            opened.close()

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                self._open.append(self._listening.accept()[0])
                self._open.append(socket.create_connection(self._target))
                near, far = self._open[-2:]
                for ends in ((near, far), (far, near)):
                    thread = threading.Thread(target=_pass_on, args=(*ends, self._is_silent), daemon=True)
                    self._threads.append(thread)
                    thread.start()


def _shut_down(opened: list[socket.socket]) -> None:
    for connection in opened:
        with suppress(OSError):  # it has ended already
            connection.shutdown(socket.SHUT_RDWR)


def _pass_on(source: socket.socket, target: socket.socket, is_silent: threading.Event) -> None:
    with suppress(OSError):
        while piece := source.recv(2**16):
            if not is_silent.is_set():
                target.sendall(piece)
        if not is_silent.is_set():
            target.shutdown(socket.SHUT_WR)


@contextmanager
def relayed(url: str) -> Iterator[tuple[str, Relay]]:
    """Yield the address of the same database through a relay, and the relay."""
    parts = urlsplit(url)
    relay = Relay(parts.hostname or "127.0.0.1", parts.port or 5432)
    credentials = f"{parts.netloc.rpartition('@')[0]}@" if "@" in parts.netloc else ""
    try:
        yield urlunsplit(parts._replace(netloc=f"{credentials}127.0.0.1:{relay.port}")), relay
    finally:
        relay.close()
