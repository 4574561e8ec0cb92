"""Requests on connections of their own over bare sockets: cheap enough for thousands, and answered
by every worker.
"""

from __future__ import annotations

import json
import socket
from typing import Any, NamedTuple

from tests.system.server import Server

ENOUGH_FOR_EVERY_WORKER = 8
"""The kernel deals connections out by chance: of two workers, one is left out by so many in 1 of
128 cases.
"""


class Answer(NamedTuple):
    status: int
    data: Any
    """The payload; None of an error, whose text names the request."""


def ask_separately(server: Server, path: str, body: Any, *, key: str | None = None) -> Answer:
    """POST a document."""
    sent = json.dumps(body).encode()
    headers = {**server.headers("client", key=key), "Content-Length": len(sent), "Connection": "close"}
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n{lines}\r\n"
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        connection.sendall(head.encode() + sent)
        received = bytearray()
        while chunk := connection.recv(2**16):
            received += chunk
    first, _, payload = bytes(received).partition(b"\r\n\r\n")
    return Answer(int(first.split()[1]), json.loads(payload).get("data"))


def is_on(server: Server, key: str, user: str = "u") -> bool:
    """Whether a flag is on in production, by whichever worker takes the question."""
    answer = ask_separately(server, f"/v1/flags/{key}/evaluate", {"userId": user})
    assert answer.status == 200
    enabled: bool = answer.data["enabled"]
    return enabled


def is_on_everywhere(server: Server, key: str) -> set[bool]:
    """Return the set of answers of all workers; it has one element if they agree."""
    return {is_on(server, key) for _ in range(ENOUGH_FOR_EVERY_WORKER)}
