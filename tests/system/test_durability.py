"""Acknowledged means committed: what a client was told is stored is there after the server was killed."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from urllib.parse import urlsplit
from uuid import uuid4

import httpx
import pytest

from tests.system.server import Server, wait_until

pytestmark = pytest.mark.system

CLIENTS, EVENTS_A_BATCH = 6, 50


class Reporter(threading.Thread):
    """A client that sends batch after batch, each again and again until it is acknowledged."""

    def __init__(self, server: Server, must_stop: threading.Event) -> None:
        super().__init__()
        self.server, self.must_stop = server, must_stop
        self.acknowledged: list[str] = []
        self.duplicates = 0
        self.unexpected: list[str] = []

    def run(self) -> None:
        while not self.must_stop.is_set():
            ids = [str(uuid4()) for _ in range(EVENTS_A_BATCH)]
            batch = {"events": [{"id": each, "event": "load", "userId": each[:8]} for each in ids]}
            while not self.is_acknowledged(batch):
                self.must_stop.wait(0.02)
            self.acknowledged += ids

    def is_acknowledged(self, batch: dict[str, object]) -> bool:
        try:
            response = self.server.ask("POST", "/v1/events/batch", json=batch)
        except httpx.TransportError:
            return False
        if response.status_code == 503:
            return False
        if response.status_code != 202:
            self.unexpected.append(response.text)
            return True
        statuses = Counter(entry["status"] for entry in response.json()["data"])
        assert sum(statuses.values()) == EVENTS_A_BATCH
        self.duplicates += statuses["duplicate"]
        return True


def test_batches__server_killed_while_they_are_stored__are_found_once_each(start_server: Callable[..., Server]) -> None:
    server = start_server()
    must_stop = threading.Event()
    reporters = [Reporter(server, must_stop) for _ in range(CLIENTS)]
    for reporter in reporters:
        reporter.start()
    try:
        for _ in range(4):
            before = sum(len(reporter.acknowledged) for reporter in reporters)
            wait_until(
                lambda least=before + 20 * EVENTS_A_BATCH: sum(len(each.acknowledged) for each in reporters) > least,
                "events are acknowledged",
                60,
            )
            server.kill()
            server.start()
    finally:
        must_stop.set()
        for reporter in reporters:
            reporter.join()
    assert [reporter.unexpected for reporter in reporters] == [[]] * CLIENTS
    acknowledged = Counter(each for reporter in reporters for each in reporter.acknowledged)
    assert len(acknowledged) > 80 * EVENTS_A_BATCH
    assert Counter(all_event_ids(server)) == acknowledged


def all_event_ids(server: Server) -> list[str]:
    """Page by page, as the `Link` header leads."""
    found: list[str] = []
    with server.client() as client:
        response = client.get("/v1/events", params={"event": "load", "limit": 1000})
        found += [event["id"] for event in response.json()["data"]]
        while "next" in response.links:
            following = urlsplit(response.links["next"]["url"])
            assert following.path == "/v1/events"
            response = client.get(f"{following.path}?{following.query}")
            found += [event["id"] for event in response.json()["data"]]
    return found
