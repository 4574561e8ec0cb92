"""The access log of event streams: a line for each when it ends, whatever ended it, and no token in it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from io import StringIO
from typing import Any

import pytest

from config.monitoring.access_log import AccessLog, LoggedStreams
from config.monitoring.starting import make_access_log

START = {"type": "http.response.start", "status": 200, "headers": []}
SCOPE = {
    "type": "http",
    "method": "GET",
    "path": "/ofrep/v1/streams/production",
    "query_string": b"token=secret",
    "client": ("127.0.0.1", 50000),
    "headers": [(b"x-forwarded-for", b"203.0.113.7"), (b"x-request-id", b"abc-1")],
}


class Endless:
    """Sends some messages, and then waits until `end` is called, or fails."""

    def __init__(self, messages: Sequence[Any] = (), error: Exception | None = None) -> None:
        self.messages, self.error = messages, error
        self.is_over = asyncio.Event()

    def end(self) -> None:
        self.is_over.set()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        for message in self.messages:
            await send(message)
        if self.error is not None:
            raise self.error
        await self.is_over.wait()


def body(content: bytes) -> dict[str, Any]:
    return {"type": "http.response.body", "body": content, "more_body": True}


def lines_of(endless: Endless, scope: dict[str, Any] = SCOPE) -> tuple[str, str]:
    """Return what is logged while the stream is open, and what is logged once it has ended."""
    out = StringIO()
    log = AccessLog("json", out=out)

    async def send(_: Any) -> None:
        pass

    async def run() -> str:
        application = LoggedStreams(endless, log)
        stream = asyncio.ensure_future(application(scope, None, send))
        await asyncio.sleep(0.02)
        log.write()
        before = out.getvalue()
        application.end()
        await asyncio.gather(stream, return_exceptions=True)
        log.write()
        return before

    before = asyncio.run(run())
    return before, out.getvalue()


def test_stream__ends__has_a_line_with_its_duration_and_bytes() -> None:
    before, after = lines_of(Endless([START, body(b"12345"), body(b"678")]))
    assert before == ""
    line = json.loads(after)
    assert line.pop("time").endswith("Z")
    assert line.pop("ms") >= 20
    assert line == {
        "level": "info", "logger": "access", "method": "GET", "path": SCOPE["path"], "status": 200, "bytes": 8,
        "operation": "event_stream", "request": "abc-1", "address": "203.0.113.7",
    }  # fmt: skip
    assert "secret" not in after


@pytest.mark.parametrize(("messages", "status"), [([], 500), ([START | {"status": 401}], 401)])
def test_stream__that_fails__has_a_line_too(messages: list[Any], status: int) -> None:
    _, after = lines_of(Endless(messages, RuntimeError()))
    assert json.loads(after)["status"] == status


def test_lifespan__is_no_request() -> None:
    assert lines_of(Endless(), {"type": "lifespan"}) == ("", "")


@pytest.mark.parametrize("is_wanted", [True, False])
def test_access_log__is_made_if_settings_ask_for_it(settings: Any, is_wanted: bool) -> None:
    settings.ACCESS_LOG = is_wanted
    assert (make_access_log() is not None) is is_wanted
