"""The streams as an ASGI server sees them: admission, responses, and that no token is ever logged."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Coroutine
from datetime import datetime, timedelta
from typing import Any

import pytest
import time_machine

from flags.ofrep import stream_application as module
from flags.ofrep.stream_application import Application
from flags.ofrep.stream_follower import Status
from flags.ofrep.stream_hub import Hub
from flags.ofrep.stream_messages import OPENING, EnvironmentStatus
from flags.ofrep.tokens import LIFETIME, issue
from tests.conftest import NOON

PATH = "/ofrep/v1/streams/production"


@pytest.fixture(autouse=True)
def _noon(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(module, "_SECONDS_TO_CATCH_UP", 0)
    with time_machine.travel(NOON, tick=False):
        yield


YESTERDAY = NOON - timedelta(days=1)


def token(environment: str = "production", key_id: str = "key", age: timedelta = timedelta(0)) -> str:
    return issue(environment=environment, key_id=key_id, now=NOON - age)


def status(revision: int = 5, changed_at: datetime = YESTERDAY, **keys: str) -> Status:
    return Status(
        {"production": EnvironmentStatus(revision, changed_at), "staging": EnvironmentStatus(1, YESTERDAY)},
        keys or {"key": "production", "other": "staging"},
    )


class Exchange:
    """A request, and the application's answer."""

    def __init__(self, application: Application, path: str = PATH, *, query: str, method: str, **headers: str) -> None:
        self.sent: list[dict[str, Any]] = []
        self._has_left = asyncio.Event()
        self._asked = False
        self._scope = {
            "type": "http",
            "method": method,
            "path": path,
            "query_string": query.encode(),
            "headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()],
        }
        self.task = asyncio.ensure_future(application(self._scope, self._receive, self._send))

    async def _receive(self) -> dict[str, Any]:
        if self._asked:
            await self._has_left.wait()
            return {"type": "http.disconnect"}
        self._asked = True
        return {"type": "http.request", "body": b"", "more_body": False}

    async def _send(self, message: Any) -> None:
        self.sent.append(message)

    def leave(self) -> None:
        self._has_left.set()

    @property
    def status(self) -> int:
        status: int = self.sent[0]["status"]
        return status

    @property
    def headers(self) -> dict[str, str]:
        return {name.decode(): value.decode() for name, value in self.sent[0]["headers"]}

    @property
    def body(self) -> bytes:
        return b"".join(message["body"] for message in self.sent[1:])


async def settle() -> None:
    """Let every task do what it can without waiting."""
    for _ in range(20):
        await asyncio.sleep(0)


def exchange(
    *,
    path: str = PATH,
    query: str | None = None,
    method: str = "GET",
    now: Status | None = None,
    then: Callable[[Exchange, Hub], Coroutine[Any, Any, None]] | None = None,
    **headers: str,
) -> Exchange:
    """Open a stream, do something while it is open, and close it."""

    async def run() -> Exchange:
        application = Application()
        application._hub = hub = Hub()
        hub.publish(now or status())
        asked = Exchange(
            application, path, query=f"token={token()}" if query is None else query, method=method, **headers
        )
        await settle()
        if then is not None:
            await then(asked, hub)
        asked.leave()
        await asked.task
        assert hub._listeners() == []
        return asked

    return asyncio.run(run())


def test_stream__with_a_good_token__opens_and_stays_open() -> None:
    async def check_it_is_open(asked: Exchange, hub: Hub) -> None:
        assert asked.sent[-1] == {"type": "http.response.body", "body": OPENING, "more_body": True}
        assert not asked.task.done()

    asked = exchange(then=check_it_is_open)
    assert asked.status == 200
    assert asked.headers == {
        "content-type": "text/event-stream",
        "cache-control": "no-store",
        "x-accel-buffering": "no",
        "connection": "close",
        "vary": "Origin",
    }
    assert asked.body == OPENING


def test_stream__environment_changes__sends_a_message() -> None:
    async def change(asked: Exchange, hub: Hub) -> None:
        hub.publish(status(6))
        await settle()

    assert exchange(then=change).body == OPENING + EnvironmentStatus(6, YESTERDAY).message


def test_stream__by_what_the_client_knows__begins_with_what_it_may_have_missed() -> None:
    for headers, changed_at, is_sent in [
        ({}, NOON, True), ({}, YESTERDAY, False), ({"last_event_id": "5"}, NOON, False),
        ({"last_event_id": "4"}, YESTERDAY, True), ({"last_event_id": '"4"'}, YESTERDAY, True),
        ({"last_event_id": "evt-4"}, YESTERDAY, False), ({"last_event_id": "9" * 30}, YESTERDAY, False),
        ({"last_event_id": ""}, NOON, True),
    ]:  # fmt: skip
        asked = exchange(now=status(changed_at=changed_at), query=f"token={token()}", **headers)
        assert asked.body == OPENING + (EnvironmentStatus(5, changed_at).message if is_sent else b""), (
            headers,
            changed_at,
        )


def test_stream__with_the_revision_of_the_answer__begins_with_what_came_after_it() -> None:
    for revision, headers, is_sent in [
        ("5", {}, False), ("4", {}, True), ("4", {"last_event_id": "5"}, False), ("5", {"last_event_id": "4"}, True),
        ("5", {"last_event_id": "evt"}, False), ("x", {}, True), ("%FF", {}, True), ("9" * 30, {}, True),
        ("", {}, True), ("4&revision=5", {}, False),
    ]:  # fmt: skip
        asked = exchange(now=status(changed_at=NOON), query=f"token={token()}&revision={revision}", **headers)
        assert asked.body == OPENING + (EnvironmentStatus(5, NOON).message if is_sent else b""), (revision, headers)


def test_stream__of_a_caller_without_a_key__opens() -> None:
    assert exchange(query=f"token={token(key_id='')}").status == 200


def test_stream__with_a_token_that_is_not_good__is_refused_in_words() -> None:
    for query, why in [
        ("", "was not issued here"),
        ("token=", "was not issued here"),
        ("token=forged", "was not issued here"),
        ("token=%FF%00", "was not issued here"),
        ("token=\x80", "was not issued here"),
        (lambda: f"token={token()}x", "was not issued here"),
        (lambda: f"token={token('staging', 'other')}", "another environment"),
        (lambda: f"token={token(age=LIFETIME)}", "has expired"),
        (lambda: f"token={token(key_id='gone')}", "expired or revoked"),
        (lambda: f"token={token(key_id='other')}", "expired or revoked"),
    ]:
        asked = exchange(query=query() if callable(query) else query)
        assert asked.status == 401, (query, why)
        assert asked.headers["www-authenticate"] == "Bearer", (query, why)
        assert list(json.loads(asked.body)) == ["errorDetails"], (query, why)
        assert why in json.loads(asked.body)["errorDetails"], (query, why)


def test_stream__key_that_comes_to_be_known_while_it_is_asked_for__opens() -> None:
    async def run() -> int:
        application = Application()
        application._hub = hub = Hub()
        hub.publish(status(other="staging"))
        asked = Exchange(application, query=f"token={token()}", method="GET")
        await asyncio.sleep(0)
        hub.publish(status())
        await settle()
        asked.leave()
        await asked.task
        return asked.status

    assert asyncio.run(run()) == 200


def test_stream__key_revoked__ends_with_the_answer_complete() -> None:
    async def revoke(asked: Exchange, hub: Hub) -> None:
        hub.publish(status(other="staging"))
        await settle()
        assert asked.task.done()
        assert asked.sent[-1] == {"type": "http.response.body", "body": b""}

    exchange(then=revoke)


def test_other_path__is_not_found() -> None:
    for path in ["/", "/ofrep/v1/streams/", "/ofrep/v1/streams", "/v1/flags", f"{PATH}/more", f"{PATH}/", f"/x{PATH}"]:
        asked = exchange(path=path)
        assert (asked.status, json.loads(asked.body)) == (404, {"errorDetails": "There is nothing at this path."}), path


def test_other_method__is_not_allowed() -> None:
    for method in ["POST", "HEAD", "OPTIONS", "DELETE"]:
        asked = exchange(method=method)
        assert asked.status == 405, method
        assert asked.headers["allow"] == "GET", method


def test_page_of_another_site__may_read_where_it_is_listed() -> None:
    for query in [None, "token=forged"]:
        for origin, expected in [("https://shop.example", "https://shop.example"), ("https://evil.example", None)]:
            asked = exchange(query=query, origin=origin)
            assert asked.headers.get("access-control-allow-origin") == expected, (query, origin)
            assert asked.headers["vary"] == "Origin", (query, origin)


def test_failure__is_logged_without_token_and_message(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    message = f"token={token()}"

    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError(message)

    monkeypatch.setattr(Hub, "join", fail)
    with caplog.at_level(logging.DEBUG):
        exchange()
    assert "An event stream failed with RuntimeError" in caplog.text
    assert "in _answer" in caplog.text
    assert "token=" not in caplog.text
    assert token() not in caplog.text


def test_end__from_another_thread__ends_every_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.Follower, "start", lambda self: self._publish(status()))

    async def run() -> None:
        application, inbox, sent = Application(), asyncio.Queue[Any](), []
        application.end()  # before there is anything to end

        async def send(message: Any) -> None:
            sent.append(message["type"])

        life = asyncio.ensure_future(application({"type": "lifespan"}, inbox.get, send))
        inbox.put_nowait({"type": "lifespan.startup"})
        await settle()
        asked = Exchange(application, query=f"token={token()}", method="GET")
        await settle()
        assert not asked.task.done()
        await asyncio.to_thread(application.end)
        await asked.task
        inbox.put_nowait({"type": "lifespan.shutdown"})
        await life
        assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]

    asyncio.run(run())
