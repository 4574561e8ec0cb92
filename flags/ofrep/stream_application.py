"""The ASGI application of the event streams. It runs in its own process.

Addresses and messages of exceptions are not logged, since they may contain a token.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import traceback
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any
from urllib.parse import parse_qs

from django.conf import settings
from django.utils import timezone

from flags.ofrep.stream_follower import Follower, Status
from flags.ofrep.stream_hub import Hub, Listener
from flags.ofrep.stream_messages import OPENING
from flags.ofrep.tokens import InvalidToken, Ticket, read

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Header = tuple[bytes, bytes]

logger = logging.getLogger(__name__)

_path = re.compile(r"/ofrep/v1/streams/([^/]+)")
_revision = re.compile(rb'"?(\d{1,18})"?')
_SECONDS_TO_CATCH_UP = 0.25
"""This process may learn of a new API key a little later than the worker that created it."""


class Application:
    """The streams of all environments. `end` may be called from any thread."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._hub: Hub | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        try:
            await _answer(self._opened(), scope, receive, send)
        except Exception as error:
            where = "".join(traceback.format_tb(error.__traceback__))
            logger.error("An event stream failed with %s\n%s", type(error).__name__, where)

    def end(self) -> None:
        """End all streams, so that the server can end."""
        if self._loop is not None and self._hub is not None:
            self._loop.call_soon_threadsafe(self._hub.close)

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        self._loop, self._hub = asyncio.get_running_loop(), Hub()
        Follower(self._publish).start()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        self._hub.close()
        await send({"type": "lifespan.shutdown.complete"})

    def _opened(self) -> Hub:
        assert self._hub is not None  # noqa: S101 (a server begins with the lifespan)
        return self._hub

    def _publish(self, status: Status) -> None:
        assert self._loop is not None  # noqa: S101 (the loop is set before the follower starts)
        self._loop.call_soon_threadsafe(self._opened().publish, status)


async def _answer(hub: Hub, scope: Scope, receive: Receive, send: Send) -> None:
    headers: dict[bytes, bytes] = dict(scope["headers"])
    shared = _cross_origin(headers.get(b"origin"))
    path = _path.fullmatch(scope["path"])
    if path is None:
        await _refuse(send, 404, "There is nothing at this path.", shared)
    elif scope["method"] != "GET":
        await _refuse(send, 405, "Streams are read with GET.", [*shared, (b"allow", b"GET")])
    else:
        try:
            ticket = await _admit(hub, path[1], scope["query_string"])
        except InvalidToken as error:
            await _refuse(send, 401, str(error), [*shared, (b"www-authenticate", b"Bearer")])
        else:
            listener = hub.join(ticket, last_revision=_last_revision(headers, scope["query_string"]))
            await _stream(hub, listener, receive, send, shared)


async def _admit(hub: Hub, environment: str, query: bytes) -> Ticket:
    [token, *_] = parse_qs(query.decode("latin-1")).get("token", [""])
    ticket = read(token, environment=environment, now=timezone.now())
    if not await hub.admits(ticket):
        await asyncio.sleep(_SECONDS_TO_CATCH_UP)
        if not await hub.admits(ticket):
            raise InvalidToken("The API key of this token is expired or revoked.")
    return ticket


def _last_revision(headers: dict[bytes, bytes], query: bytes) -> int | None:
    """Return the last revision that the client received, on a stream or with its first answer."""
    [offered] = parse_qs(query.decode("latin-1")).get("revision", [""])[-1:]
    found = (_revision.fullmatch(text) for text in (headers.get(b"last-event-id", b""), offered.encode()))
    return next((int(revision[1]) for revision in found if revision), None)


async def _stream(hub: Hub, listener: Listener, receive: Receive, send: Send, shared: Iterable[Header]) -> None:
    gone = asyncio.create_task(_end_when_gone(listener, receive))
    try:
        headers = [
            (b"content-type", b"text/event-stream"),
            (b"cache-control", b"no-store"),
            (b"x-accel-buffering", b"no"),  # keeps nginx from buffering
            (b"connection", b"close"),  # the connection has no other request
            *shared,
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        message: bytes | None = OPENING
        while message is not None:
            await send({"type": "http.response.body", "body": message, "more_body": True})
            message = await listener.next()
        await send({"type": "http.response.body", "body": b""})
    finally:
        gone.cancel()
        hub.leave(listener)


async def _end_when_gone(listener: Listener, receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    listener.end()


async def _refuse(send: Send, status: int, why: str, headers: Iterable[Header]) -> None:
    body = json.dumps({"errorDetails": why}).encode()
    described = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), *headers]
    await send({"type": "http.response.start", "status": status, "headers": described})
    await send({"type": "http.response.body", "body": body})


def _cross_origin(origin: bytes | None) -> list[Header]:
    if origin is None or origin.decode("latin-1") not in settings.CORS_ALLOWED_ORIGINS:
        return [(b"vary", b"Origin")]
    return [(b"vary", b"Origin"), (b"access-control-allow-origin", origin)]


application = Application()
