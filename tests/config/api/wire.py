"""Requests as they come off the wire: raw bytes through the WSGI application that `manage.py serve` runs."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote_to_bytes

from django.core.signals import request_finished, request_started
from django.db import close_old_connections

from config.errors import ErrorCode
from config.serving.wsgi import application


@dataclass(frozen=True)
class Answer:
    """What came back. Names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


def send(
    method: str,
    target: str,
    body: bytes = b"",
    headers: Mapping[str, str | None] | None = None,
    *,
    key: str | None = None,
    address: str = "127.0.0.1",
) -> Answer:
    """Send one request. A header that is None is left out; `target` is percent-encoded, as on the wire."""
    sent: dict[str, str | None] = {"Host": "testserver", "Content-Type": "application/json" if body else None}
    if key is not None:
        sent["Authorization"] = f"Bearer {key}"
    sent |= headers or {}
    began: list[Any] = []
    with own_connection():
        parts = application(
            environ_of(method, target, body, sent, address), lambda status, found, *_: began.extend((status, found))
        )
        try:
            content = b"".join(parts)
        finally:
            if hasattr(parts, "close"):
                parts.close()
    status, found = began
    return Answer(int(status.split()[0]), {name.lower(): value for name, value in found}, content)


@contextmanager
def own_connection() -> Iterator[None]:
    """Requests end by closing connections in doubt, such as one within the transaction of a test."""
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    try:
        yield
    finally:
        for signal in (request_started, request_finished):
            signal.connect(close_old_connections)


def environ_of(
    method: str, target: str, body: bytes, headers: Mapping[str, str | None], address: str
) -> dict[str, Any]:
    path, _, query = target.partition("?")
    environ = {
        "REQUEST_METHOD": method,
        "PATH_INFO": unquote_to_bytes(path).decode("latin-1"),
        "QUERY_STRING": query,
        "SERVER_NAME": "testserver",
        "SERVER_PORT": "80",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "REMOTE_ADDR": address,
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(body),
        "wsgi.errors": io.StringIO(),
        "wsgi.version": (1, 0),
        "wsgi.multithread": True,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
    }
    if "Transfer-Encoding" not in headers:
        environ["CONTENT_LENGTH"] = str(len(body))
    for name, value in headers.items():
        variable = name.upper().replace("-", "_")
        if value is not None:
            environ[variable if variable in ("CONTENT_TYPE", "CONTENT_LENGTH") else f"HTTP_{variable}"] = value
    return environ


def failure(answer: Answer) -> dict[str, Any]:
    """The error of an answer, after a look at its envelope: this shape, its own status, the id in body and header."""
    document = answer.json()
    assert answer.headers["content-type"] == "application/json"
    assert document.keys() == {"error"}
    error: dict[str, Any] = document["error"]
    assert error.keys() - {"details"} == {"code", "message", "requestId"}
    assert answer.status == ErrorCode(error["code"]).status
    assert error["message"]
    assert error["requestId"] == answer.headers["x-request-id"]
    for detail in error.get("details", ()):
        assert detail.keys() == {"field", "code", "message"}
        assert all(detail.values())
    return error
