"""Clients that connect and then say nothing, or too little."""

from __future__ import annotations

import resource
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

from tests.system.server import PROXY_HEADERS, Server

PATH = "/v1/flags/known/evaluate"
_SECONDS_BETWEEN_DRIPS = 0.2
_MOST_FILES = 8192


@contextmanager
def silent(server: Server, count: int, *, key: str | None = None) -> Iterator[list[socket.socket]]:
    """Open connections that announce a body, send one byte of it, and fall silent."""
    sent = {**PROXY_HEADERS, "Host": "127.0.0.1", "Content-Type": "application/json", "Content-Length": "100"}
    if key is not None:
        sent["Authorization"] = f"Bearer {key}"
    head = "".join(f"{name}: {value}\r\n" for name, value in sent.items())
    request = f"POST {PATH} HTTP/1.1\r\n{head}\r\n{{".encode()
    with _connected(server, count) as connections:
        for connection in connections:
            connection.sendall(request)
        yield connections


@contextmanager
def dripping(server: Server, count: int, *, key: str | None = None) -> Iterator[list[socket.socket]]:
    """The same, but they go on with a byte at a time for as long as they can."""
    must_stop = threading.Event()

    def drip(connections: list[socket.socket]) -> None:
        while not must_stop.wait(_SECONDS_BETWEEN_DRIPS):
            for connection in connections:
                with suppress(OSError):  # closed by the server
                    connection.send(b" ")

    with silent(server, count, key=key) as connections:
        thread = threading.Thread(target=drip, args=(connections,))
        thread.start()
        try:
            yield connections
        finally:
            must_stop.set()
            thread.join()


@contextmanager
def idle(server: Server, count: int) -> Iterator[None]:
    """Open connections that send nothing at all."""
    with _connected(server, count):
        yield


@contextmanager
def _connected(server: Server, count: int) -> Iterator[list[socket.socket]]:
    _, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(_MOST_FILES, hard_limit), hard_limit))
    with ExitStack() as opened:
        address = ("127.0.0.1", server.port)
        yield [opened.enter_context(socket.create_connection(address, timeout=60)) for _ in range(count)]


def statuses(connections: list[socket.socket]) -> Counter[str]:
    """Read all that the server answers until it closes each connection, and count the statuses."""
    return Counter(_answer(connection)[9:12].decode() for connection in connections)


def _answer(connection: socket.socket) -> bytes:
    received = b""
    with suppress(ConnectionResetError):  # it was closed before it had read all that was sent
        while piece := connection.recv(2**16):
            received += piece
    return received
