"""A service in memory that answers the client's requests."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Iterator
from typing import Any

import httpx
from halyard_openfeature import HalyardProvider

PLAIN = {"key": "plain", "enabled": True, "rules": []}
COLOUR: dict[str, Any] = {
    "key": "colour",
    "enabled": True,
    "rules": [
        {
            "type": "experiment",
            "experiment": "colours",
            "variants": [
                {"key": "control", "weight": 0, "serves": "blue"},
                {"key": "treatment", "weight": 1, "serves": "green"},
            ],
            "forced": {"tester": "treatment"},
        }
    ],
    "type": "string",
    "variants": [{"key": "blue", "value": "#00f"}, {"key": "green", "value": "#0f0"}],
}
VALUES: dict[str, Any] = {
    "key": "price",
    "enabled": True,
    "rules": [],
    "type": "number",
    "variants": [{"key": "whole", "value": 5}, {"key": "half", "value": 5.5}],
}
BANNER: dict[str, Any] = {
    "key": "banner",
    "enabled": True,
    "rules": [],
    "type": "object",
    "variants": [{"key": "sea", "value": {"title": "Ahoy", "lines": [1, 2]}}],
}
HALF = {"key": "half", "enabled": True, "rules": [{"type": "percentage", "percentage": 50}]}


class Service:
    """Answers as the service does. While `is_away`, it refuses every connection."""

    def __init__(self) -> None:
        self.environment, self.revision = "production", 1
        self.flags: dict[str, Any] = {flag["key"]: flag for flag in (PLAIN, COLOUR, VALUES, BANNER, HALF)}
        self.is_away, self.has_streams = False, True
        self.event_answers: list[httpx.Response] = []
        self.broken_answers = 0
        self.batches: list[list[dict[str, Any]]] = []
        self.requests: list[httpx.Request] = []
        self.streams = 0
        self._messages: queue.Queue[bytes | None] = queue.Queue()
        self.has_stream = threading.Event()

    @property
    def ruleset(self) -> dict[str, Any]:
        flags = [*self.flags.values()]
        return {"environment": self.environment, "revision": self.revision, "flags": flags, "segments": []}

    @property
    def events(self) -> list[dict[str, Any]]:
        return [event for batch in self.batches for event in batch]

    def change(self, flag: dict[str, Any]) -> None:
        self.revision += 1
        self.flags[flag["key"]] = flag

    def announce(self, revision: int | None = None) -> None:
        message = json.dumps({"type": "refetchEvaluation", "etag": str(revision or self.revision), "lastModified": 1})
        self._messages.put(f": a comment\nid: 7\nevent: message\ndata: {message}\n\n".encode())

    def end_stream(self) -> None:
        self._messages.put(None)

    def answer(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        if self.is_away:
            raise httpx.ConnectError("refused", request=request)
        path = request.url.path
        if path == "/v1/ruleset":
            return self._answer_ruleset(request)
        if path == "/v1/events/batch":
            return self._answer_events(request)
        if path.startswith("/ofrep/v1/streams/"):
            return httpx.Response(200, content=self._stream())
        streams = [{"type": "sse", "url": "http://flags.test/ofrep/v1/streams/production?token=secret"}]
        return httpx.Response(200, json={"flags": [], "eventStreams": streams if self.has_streams else []})

    def _answer_ruleset(self, request: httpx.Request) -> httpx.Response:
        etag = f'W/"{self.environment}-{self.revision}"'
        if request.headers.get("If-None-Match") == etag:
            return httpx.Response(304)
        return httpx.Response(200, json={"data": self.ruleset}, headers={"ETag": etag})

    def _answer_events(self, request: httpx.Request) -> httpx.Response:
        if self.broken_answers:
            self.broken_answers -= 1
            raise RuntimeError("a defect of a transport")
        batch = json.loads(request.content)["events"]
        if self.event_answers:
            answer = self.event_answers.pop(0)
            if answer.status_code != 202:
                return answer
        self.batches.append(batch)
        return httpx.Response(202, json={"data": [{"id": event["id"], "status": "accepted"} for event in batch]})

    def _stream(self) -> Iterator[bytes]:
        self.streams += 1
        yield b"retry: 2000\n: Halyard sends an event here when flags change.\n\n"
        self.has_stream.set()
        while (message := self._messages.get()) is not None:
            yield message


class Watched(HalyardProvider):
    """A provider that records the events it emits."""

    def __init__(self, service: Service, **options: Any) -> None:
        self.emitted: queue.Queue[tuple[str, Any]] = queue.Queue()
        http_options = {"transport": httpx.MockTransport(service.answer)}
        super().__init__("http://flags.test/", "hyd_s_key", http_options=http_options, **options)
        self.attach(lambda _, event, details: self.emitted.put((event.value, details)))

    def next_event(self) -> tuple[str, Any]:
        """Wait for the next event, and return its name and its details."""
        return self.emitted.get(timeout=30)
