"""Requests at one and the same moment: each from a thread of its own, on a connection that is open already."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any, NamedTuple

from tests.system.server import Server


class Call(NamedTuple):
    method: str
    path: str
    body: Any = None
    headers: Mapping[str, str] = {}


class Answer(NamedTuple):
    status: int
    body: Any

    @property
    def code(self) -> str:
        """Of an error, what it is."""
        code: str = self.body["error"]["code"]
        return code


def ask_together(server: Server, calls: Sequence[Call]) -> list[Answer]:
    """The answers to calls that are sent all at once, in their order."""
    barrier = Barrier(len(calls))
    with ThreadPoolExecutor(len(calls)) as threads:
        return list(threads.map(lambda call: _ask(server, call, barrier), calls))


def _ask(server: Server, call: Call, barrier: Barrier) -> Answer:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
    try:
        connection.connect()
        body = None if call.body is None else json.dumps(call.body)
        headers = {**server.headers(), "Content-Type": "application/json", **call.headers}
        barrier.wait(60)
        connection.request(call.method, call.path, body, headers)
        response = connection.getresponse()
        raw = response.read()
        return Answer(response.status, json.loads(raw) if raw else None)
    finally:
        connection.close()
