"""Late exposures, refreshes, erasures at once on Citus, while a worker crashes: results stay exact."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from itertools import count
from typing import Any
from uuid import uuid4

import pytest

from tests.citus.cluster import CitusCluster
from tests.system.recorders import counted_events
from tests.system.server import Server, wait_until

pytestmark = pytest.mark.citus

VARIANTS = ("control", "green")
WRITERS, SECONDS = 3, 60
ERASED = 4
"""One in so many users is erased."""


class Visits:
    """Users who buy before their exposure is known, and of whom some are erased at once."""

    def __init__(self, server: Server, exposed_at: datetime) -> None:
        self._server, self._exposed_at = server, exposed_at
        self._numbers, self.has_ended = count(), threading.Event()
        self.kept: dict[str, str] = {}
        self.erased: set[str] = set()
        self.failures: list[BaseException] = []

    def write(self) -> None:
        try:
            self._write()
        except BaseException as error:
            self.failures.append(error)
            raise

    def _write(self) -> None:
        while not self.has_ended.is_set():
            number = next(self._numbers)
            user, variant = f"user-{number}", VARIANTS[number % 2]
            self._ask("POST", "/v1/events/batch", json={"events": [_event(user, "bought") for _ in range(3)]})
            properties = {"experimentId": "sale", "variant": variant}
            exposure = _event(user, "seen") | {"timestamp": self._exposed_at.isoformat(), "properties": properties}
            self._ask("POST", "/v1/events", json=exposure)
            if number % ERASED:
                self.kept[user] = variant
            else:
                self._ask("DELETE", f"/v1/users/{user}")
                self.erased.add(user)

    def read(self) -> None:
        while not self.has_ended.is_set():
            self._ask("GET", "/v1/experiments/sale")

    def wait_for_more(self, least: int = 8) -> None:
        before = len(self.kept), len(self.erased)
        wait_until(
            lambda: bool(self.failures) or (len(self.kept) >= before[0] + least and len(self.erased) > before[1]),
            "users were recorded and erased",
            SECONDS,
        )
        assert self.failures == []

    def _ask(self, method: str, path: str, **options: Any) -> None:
        answer = self._server.ask_after_outage(method, path, **options)
        assert answer.is_success, answer.text


def _event(user: str, name: str) -> dict[str, Any]:
    return {"id": str(uuid4()), "event": name, "userId": user, "timestamp": datetime.now(UTC).isoformat()}


def test_results__late_exposures_folds_and_erasures_while_workers_crash__are_exact(
    citus: CitusCluster, server: Server
) -> None:
    metric = {"key": "bought", "type": "conversion", "event": "bought"}
    server.ask("POST", "/v1/metrics", json=metric).raise_for_status()
    variants = [{"key": key, "weight": 1} for key in VARIANTS]
    experiment = {"key": "sale", "variants": variants, "metrics": ["bought"]}
    server.ask("POST", "/v1/experiments", json=experiment).raise_for_status()
    server.ask("POST", "/v1/experiments/sale/start").raise_for_status()
    visits = Visits(server, datetime.now(UTC))
    with ThreadPoolExecutor() as threads:
        running = [threads.submit(visits.write) for _ in range(WRITERS)] + [threads.submit(visits.read)]
        try:
            visits.wait_for_more()
            for worker in citus.workers:
                worker.stop("immediate")
                worker.start()
                visits.wait_for_more()
        finally:
            visits.has_ended.set()
        for each in running:
            each.result()
    assert "match the events" in server.run("manage.py", "check_results")
    counted = Counter(visits.kept.values())
    results = server.ask("GET", "/v1/experiments/sale").json()["data"]["results"]
    assert {key: results[key]["sampleSize"] for key in VARIANTS} == counted
    assert {key: results[key]["conversion"] for key in VARIANTS} == dict.fromkeys(VARIANTS, 1)
    assert counted_events(server) == {"bought": 3 * len(visits.kept), "seen": len(visits.kept)}
    for user in [*visits.erased][:5]:
        assert server.ask("GET", "/v1/events", params={"userId": user}).json()["data"] == []
