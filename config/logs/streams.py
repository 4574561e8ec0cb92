"""The access log of event streams: a line for each once it ends, as nginx does, with its duration and its bytes."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any, Protocol

from config.logs.access import AccessLog
from config.logs.request_ids import request_id_of
from config.logs.watching import Answered

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
    """Return what a line has of a request, as WSGI calls it. The token is in the query, which is left out."""
    headers: Iterable[tuple[bytes, bytes]] = scope["headers"]
    sent = {name: value.decode("latin-1") for name, value in headers}
    environ = {
        "REQUEST_METHOD": scope["method"],
        "PATH_INFO": scope["path"],
        "REMOTE_ADDR": (scope.get("client") or ("",))[0],
    }
    named = {"HTTP_X_FORWARDED_FOR": b"x-forwarded-for", "HTTP_X_REQUEST_ID": b"x-request-id"}
    return environ | {key: sent[name] for key, name in named.items() if name in sent}
