"""The access log: a line for each request, and for each event stream once it ends, with its duration and its bytes.

Another thread than the one that answers writes the lines. A line has the path without its query, which may contain the
ids of users or the token of a stream. No header of the client is in it.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from datetime import UTC, datetime
from typing import Any, Protocol

import orjson

from config.monitoring.addresses import address_of
from config.monitoring.log_lines import without_secrets
from config.monitoring.request_ids import request_id_of
from config.monitoring.watching import Answered

_PREFIX_OF_KEYS = "hyd_"
"""Clients may put a key into a path or a request id by mistake. To look for it is cheaper than to replace secrets."""

_Entry = tuple[float, str, str, int, float, int | None, str, str, str]
_FIELDS = ("method", "path", "status", "ms", "bytes", "operation", "request", "address")


class AccessLog:
    """Lines that wait to be written together."""

    def __init__(self, form: str, *, out: Any = None) -> None:
        self._write_line = _json if form == "json" else _text
        self._out = out
        self._waiting: deque[_Entry] = deque()

    def add(self, answered: Answered) -> None:
        """Keep a line until `write`. This costs a request almost nothing."""
        environ, operation, status, _, size, seconds = answered
        self._waiting.append(
            (
                time.time(), environ["REQUEST_METHOD"], environ["PATH_INFO"], status, round(seconds * 1000, 3), size,
                operation, answered.request_id, address_of(environ),
            )
        )  # fmt: skip

    def write(self, **_: object) -> None:
        lines = [self._write_line(self._waiting.popleft()) for _ in range(len(self._waiting))]
        if lines:
            out, text = self._out or sys.stderr, "".join(lines)
            out.write(without_secrets(text) if _PREFIX_OF_KEYS in text else text)
            out.flush()


def _stamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _json(entry: _Entry) -> str:
    line = {"time": _stamp(entry[0]), "level": "info", "logger": "access", **dict(zip(_FIELDS, entry[1:], strict=True))}
    return orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE, default=str).decode()


def _text(entry: _Entry) -> str:
    moment, method, path, status, milliseconds, size, operation, request, address = entry
    body = "stream" if size is None else f"{size} bytes"
    # A path may contain line breaks, which would forge other lines.
    words = f"{method} {ascii(path)[1:-1]} {status} {milliseconds} ms {body} {operation} from {address}"
    return f"{_stamp(moment)} INFO access {words} [request {request}]\n"


OPERATION = "event_stream"

Message = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]


class StreamApplication(Protocol):
    """An ASGI application with endless responses, which `end` completes."""

    def end(self) -> None: ...

    def __call__(self, scope: Any, receive: Any, send: Any) -> Awaitable[None]: ...


class LoggedStreams:
    """An application whose answers have a line each in the access log."""

    def __init__(self, application: StreamApplication, log: AccessLog) -> None:
        self._application = application
        self._log = log

    def end(self) -> None:
        self._application.end()

    async def __call__(self, scope: Any, receive: Any, send: Send) -> None:
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        answer, begun = _Answer(send), time.monotonic()
        try:
            await self._application(scope, receive, answer.send)
        finally:
            environ = _environ_of(scope)
            headers = [("X-Request-Id", request_id_of(environ))]
            seconds = time.monotonic() - begun
            self._log.add(Answered(environ, OPERATION, answer.status, headers, answer.size, seconds))


class _Answer:
    """Counts what is sent of one answer."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status = 500  # of the answer that granian gives if the application fails before it starts one
        self.size = 0

    async def send(self, message: Message) -> None:
        await self._send(message)
        self.status = message.get("status", self.status)
        self.size += len(message.get("body", b""))


def _environ_of(scope: Any) -> dict[str, Any]:
    """Return what a line needs of a request, with the names of WSGI. The query has the token and is left out."""
    headers: Iterable[tuple[bytes, bytes]] = scope["headers"]
    sent = {name: value.decode("latin-1") for name, value in headers}
    environ = {
        "REQUEST_METHOD": scope["method"],
        "PATH_INFO": scope["path"],
        "REMOTE_ADDR": (scope.get("client") or ("",))[0],
    }
    named = {"HTTP_X_FORWARDED_FOR": b"x-forwarded-for", "HTTP_X_REQUEST_ID": b"x-request-id"}
    return environ | {key: sent[name] for key, name in named.items() if name in sent}
