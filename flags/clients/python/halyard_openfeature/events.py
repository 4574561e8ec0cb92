"""The queue of events, which are sent in batches and again after failures. Their ids prevent duplicates."""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import httpx

from .api import Api, logger, pause_after

MAX_EVENTS = 500
"""Events in a request."""
_SETTLED = frozenset({202, 400, 413})


class EventQueue:
    """Holds at most `capacity` events, and sends them from its own thread after `delay` seconds."""

    def __init__(self, api: Api, *, capacity: int, delay: float) -> None:
        self._api, self._capacity, self._delay = api, capacity, delay
        self._most = MAX_EVENTS
        self._failures = 0
        self._response: httpx.Response | None = None
        self._warned: set[str] = set()
        self.reset()

    def reset(self) -> None:
        """Begin empty. In a forked process, the events belong to the parent, which sends them."""
        self._is_closed = False
        self._events: deque[bytes] = deque()  # as JSON
        self._sending = threading.Lock()
        self._wake = threading.Event()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None

    def __len__(self) -> int:
        return len(self._events)

    def add(self, event: str, user_id: str, properties: Mapping[str, Any]) -> bool:
        """Queue an event, and return whether it was queued. If the queue is full or closed, log that once."""
        if self._is_closed or len(self._events) >= self._capacity:
            self.warn("full", f"Events are lost: the queue is closed, or full with {self._capacity}.")
            return False
        timestamp = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        sent = {"id": str(uuid4()), "event": event, "userId": user_id, "timestamp": timestamp, "properties": properties}
        try:
            self._events.append(json.dumps(sent).encode())
        except (TypeError, ValueError) as error:
            self.warn(f"bad {event}", f"{event} is dropped, because JSON cannot hold it: {error}.")
            return False
        if self._thread is None:
            self._start()
        if len(self._events) >= MAX_EVENTS and not self._failures:
            self._wake.set()
        return True

    def flush(self, timeout: float = 10.0) -> bool:
        """Send all events from this thread, and return whether all arrived within `timeout` seconds."""
        deadline = time.monotonic() + timeout
        while self._events:
            if time.monotonic() > deadline or not self._sending.acquire(timeout=max(0.0, deadline - time.monotonic())):
                return False
            try:
                if self._events and not self._send_batch():
                    return False
            finally:
                self._sending.release()
        return True

    def close(self, timeout: float = 10.0) -> bool:
        """Send all events, and accept no more. Return whether all arrived."""
        self._is_closed = True
        self._wake.set()
        is_sent = self.flush(timeout)
        if not is_sent:
            self.warn("lost", f"{len(self._events)} events could not be sent before the end, and are lost.")
        return is_sent

    def warn(self, what: str, message: str) -> None:
        """Log each kind of warning once."""
        if what not in self._warned:
            self._warned.add(what)
            logger.warning(message)

    def _start(self) -> None:
        with self._starting:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="halyard-events", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while not self._is_closed:
            self._wake.wait(pause_after(self._failures, self._response) if self._failures else self._delay)
            self._wake.clear()
            try:
                with self._sending:
                    while self._events and not self._is_closed and self._send_batch():
                        pass
            except Exception:  # any error: without this thread no event is sent
                self._failures += 1
                logger.exception("Sending events failed; they are sent again")

    def _send_batch(self) -> bool:
        """Send a batch, and return whether it is done: stored, or refused for good."""
        batch = [self._events[index] for index in range(min(self._most, len(self._events)))]
        try:
            body = b'{"events":[%s]}' % b",".join(batch)
            headers = {"Content-Type": "application/json"}
            response = self._api.client.post("/v1/events/batch", content=body, headers=headers)
        except httpx.HTTPError:
            response = None
        is_settled = response is not None and response.status_code in _SETTLED
        if response is not None:
            self._settle(batch, response)
        self._failures = 0 if is_settled else self._failures + 1
        self._response = response
        return is_settled

    def _settle(self, batch: Sequence[bytes], response: httpx.Response) -> None:
        status, answer = response.status_code, _decode(response)
        if status in (401, 403):
            self.warn("key", f"Events are not accepted with this key (status {status}).")
        if status not in _SETTLED:
            return
        error: Any = answer.get("error")
        error = error if isinstance(error, dict) else {}  # a proxy may answer in its own format
        spoils_all = status == 413 or error.get("code") == "malformed_json"
        if spoils_all and len(batch) > 1:
            self._most = len(batch) // 2  # until the invalid event is alone
            return
        self._most = MAX_EVENTS if status == 202 else self._most
        refused = error or next(_rejections(answer), None)
        if refused:
            self.warn("rejected", f"Events were rejected and dropped: {refused.get('message')}")
        for _ in batch:
            self._events.popleft()


def _rejections(answer: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield why events were rejected. Unexpected parts of the answer are ignored."""
    results = answer.get("data")
    for result in results if isinstance(results, list) else ():
        if isinstance(result, dict) and isinstance(result.get("error"), dict):
            yield result["error"]


def _decode(response: httpx.Response) -> dict[str, Any]:
    try:
        answer = response.json()
    except ValueError:
        answer = None
    return answer if isinstance(answer, dict) else {}
