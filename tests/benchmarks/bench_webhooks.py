"""The time from a change to its message at the receiver: 100 changes, one after the other, on each database."""

from __future__ import annotations

import json
import time
from datetime import datetime

from tests.benchmarks.servers import serving_on_postgresql, serving_on_sqlite
from tests.benchmarks.tables import print_bars
from tests.system.server import Server
from tests.system.test_webhooks import SETTINGS, webhook

CHANGES, MOST_SECONDS = 100, 2.0


def run() -> bool:
    print(f"Webhooks: {CHANGES} changes by the API, one receiver, 2 workers; seconds from the change to the message")
    with serving_on_sqlite(**SETTINGS) as on_sqlite:
        sqlite = measure(on_sqlite)
    with serving_on_postgresql(**SETTINGS) as on_postgresql:
        postgresql = measure(on_postgresql)
    slowest = {"SQLite": p99(sqlite), "PostgreSQL": p99(postgresql)}
    return print_bars(
        {
            f"p99 on {name} is {seconds:.2f} s, at most {MOST_SECONDS:g} s": seconds <= MOST_SECONDS
            for name, seconds in slowest.items()
        }
    )


def measure(server: Server) -> list[float]:
    """Return the seconds that each message took from the time of its change."""
    seconds = []
    with webhook(server) as receiver:
        for at in range(CHANGES):
            assert server.ask("POST", "/v1/flags", json={"key": f"flag-{at}"}).status_code == 201
            time.sleep(0.05)
        for _ in range(CHANGES):
            received = receiver.get()
            changed_at = datetime.fromisoformat(json.loads(received.body)["timestamp"]).timestamp()
            seconds.append(received.at - changed_at)
    return seconds


def p99(seconds: list[float]) -> float:
    return sorted(seconds)[int(len(seconds) * 0.99) - 1]
