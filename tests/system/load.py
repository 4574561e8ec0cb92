"""Clients that repeat one request until they are stopped, and count the outcomes."""

from __future__ import annotations

import http.client
import multiprocessing
import secrets
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

ANSWERED, REFUSED, BROKEN = "answered", "refused", "broken"
SECONDS_TO_ANSWER = 60
NEW_USER = b"<new user>"

_processes = multiprocessing.get_context("spawn")


@dataclass(frozen=True)
class Question:
    """A POST and the text that its whole answer ends with. Each NEW_USER in its body becomes another user.

    A client waits for `pause` seconds before it asks again.
    """

    port: int
    path: str
    headers: Mapping[str, str]
    body: bytes
    answer: bytes
    pause: float = 0.0

    def next_body(self) -> bytes:
        return self.body.replace(NEW_USER, secrets.token_hex(8).encode()) if NEW_USER in self.body else self.body


@contextmanager
def load(question: Question, *, processes: int, on_fresh: int, on_kept: int) -> Iterator[Counter[str]]:
    """Ask from so many threads on fresh connections and so many on kept ones, until the block ends.

    Afterwards the counter holds `answered`, `refused` (nobody was listening), `broken` (the connection
    ended before an answer came), and every other thing that happened. Each of those two is a request
    that was lost after its connection had been accepted.
    """
    counted: Counter[str] = Counter()
    must_stop, results = _processes.RawValue("b", 0), _processes.Queue()
    arguments = (question, on_fresh, on_kept, must_stop, results)
    clients = [_processes.Process(target=_ask, args=arguments, daemon=True) for _ in range(processes)]
    for client in clients:
        client.start()
    for _ in clients:
        assert results.get(timeout=60) == "started"
    try:
        yield counted
    finally:
        must_stop.value = 1
        for _ in clients:
            counted.update(results.get(timeout=2 * SECONDS_TO_ANSWER))
        for client in clients:
            client.join()


def _ask(question: Question, on_fresh: int, on_kept: int, must_stop: Any, results: Any) -> None:
    counted: Counter[str] = Counter()
    threads = [
        threading.Thread(target=_repeat, args=(ask, question, must_stop, counted))
        for ask, count in ((_ask_on_fresh_connection, on_fresh), (_ask_on_kept_connection, on_kept))
        for _ in range(count)
    ]
    for thread in threads:
        thread.start()
    results.put("started")
    for thread in threads:
        thread.join()
    results.put(counted)


def _repeat(ask: Callable[..., None], question: Question, must_stop: Any, counted: Counter[str]) -> None:
    while not must_stop.value:
        try:
            ask(question, must_stop, counted)
            time.sleep(question.pause)
        except ConnectionRefusedError:
            counted[REFUSED] += 1
            time.sleep(0.01)
        except (ConnectionError, http.client.IncompleteRead):
            counted[BROKEN] += 1
            time.sleep(0.1)  # processes that are killed together still end one after the other
        except (OSError, http.client.HTTPException) as error:
            counted[f"{ask.__name__}: {error!r}"] += 1


def _ask_on_fresh_connection(question: Question, must_stop: Any, counted: Counter[str]) -> None:
    body = question.next_body()
    headers = {**question.headers, "Content-Length": len(body), "Connection": "close"}
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    request = f"POST {question.path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{head}\r\n".encode() + body
    with socket.create_connection(("127.0.0.1", question.port), SECONDS_TO_ANSWER) as connection:
        connection.sendall(request)
        received = bytearray()
        while chunk := connection.recv(2**16):
            received += chunk
    if not received:
        raise ConnectionResetError
    is_whole = received.startswith(b"HTTP/1.1 200 ") and received.endswith(question.answer)
    counted[ANSWERED if is_whole else f"fresh: {bytes(received[:100])!r}"] += 1


def _ask_on_kept_connection(question: Question, must_stop: Any, counted: Counter[str]) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", question.port, timeout=SECONDS_TO_ANSWER)
    try:
        while not must_stop.value:
            connection.request("POST", question.path, question.next_body(), dict(question.headers))
            response = connection.getresponse()
            is_whole = response.read() == question.answer and response.status == 200
            counted[ANSWERED if is_whole else f"kept: {response.status}"] += 1
            if response.getheader("Connection") == "close":
                return
            time.sleep(question.pause)
    finally:
        connection.close()
