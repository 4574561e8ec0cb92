"""Servers behind PgBouncer in transaction mode: everything works, and statements are limited in time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import psycopg
import pytest

from tests.system.connections import is_on_everywhere
from tests.system.databases import for_psycopg, fresh_database
from tests.system.pooler import pooled
from tests.system.server import Keys, Server, serving, wait_until

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(
        os.environ.get("DATABASE_URL", "sqlite").startswith("sqlite"), reason="PgBouncer is for PostgreSQL"
    ),
]

SECONDS = 60
EVENT = {"event": "buy", "userId": "ada"}


@pytest.fixture(scope="module")
def direct(tmp_path_factory: pytest.TempPathFactory, prepared: tuple[str, Keys]) -> Iterator[str]:
    with fresh_database(tmp_path_factory.mktemp("database"), prepared[0]) as url:
        yield url


@pytest.fixture(scope="module")
def servers(
    tmp_path_factory: pytest.TempPathFactory, prepared: tuple[str, Keys], direct: str
) -> Iterator[tuple[Server, Server]]:
    """Two hosts that share the connections of one PgBouncer."""
    with ExitStack() as running:
        url = running.enter_context(pooled(direct))
        options: Any = {"keys": prepared[1], "workers": 1, "DATABASE_TIMEOUT": "2"}
        first, second = (
            running.enter_context(serving(tmp_path_factory.mktemp("server"), url, **options)) for _ in range(2)
        )
        yield first, second


def test_servers__behind_a_pool__do_everything(servers: tuple[Server, Server]) -> None:
    server, _ = servers
    created = server.ask("POST", "/v1/flags", json={"key": "pooled", "enabled": True})
    assert created.status_code == 201
    experiment = {"key": "e", "variants": [{"key": "a", "weight": 1}, {"key": "b", "weight": 1}], "metrics": ["buy"]}
    assert server.ask("POST", "/v1/experiments", json=experiment).status_code == 201
    assert server.ask("POST", "/v1/experiments/e/start").status_code == 200
    assert server.ask("POST", "/v1/experiments/e/variant", json={"userId": "ada"}).status_code == 200
    assert server.ask("POST", "/v1/events", json=EVENT).status_code == 202
    assert server.ask("POST", "/v1/events/batch", json={"events": [EVENT] * 3}).status_code == 202
    results = server.ask("GET", "/v1/experiments/e").json()["data"]["results"]
    assert [variant for variant in results.values() if variant["sampleSize"]] == [{"sampleSize": 1, "conversion": 1.0}]
    assert server.ask("GET", "/v1/experiments/e/results").status_code == 200
    assert len(server.ask("GET", "/v1/events?limit=10").json()["data"]) >= 4
    assert server.ask("GET", "/v1/audit").status_code == 200
    assert "Traceback" not in server.log.read_text()


def test_change__on_one_host__is_seen_by_the_other_without_announcements(servers: tuple[Server, Server]) -> None:
    server, other = servers
    assert server.ask("POST", "/v1/flags", json={"key": "news", "enabled": True}).status_code == 201
    wait_until(lambda: evaluates(other, "news"), "the other host knows the flag", SECONDS)
    assert is_on_everywhere(other, "news") == {True}
    assert server.ask("PATCH", "/v1/flags/news", json={"enabled": False}).status_code == 200
    wait_until(lambda: is_on_everywhere(other, "news") == {False}, "the other host knows the change", SECONDS)


def evaluates(server: Server, key: str) -> bool:
    return server.ask("POST", f"/v1/flags/{key}/evaluate", json={"userId": "u"}).status_code == 200


def test_statements__that_wait_for_a_lock__are_ended(servers: tuple[Server, Server], direct: str) -> None:
    server, _ = servers
    with psycopg.connect(for_psycopg(direct)) as connection, ThreadPoolExecutor(4) as writers:
        connection.execute("LOCK TABLE events_event")
        writes = [writers.submit(server.ask, "POST", "/v1/events", json=EVENT) for _ in range(4)]
        answers = [write.result(SECONDS) for write in writes]
        waiting = (
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'INSERT%events_event%'"
        )
        wait_until(lambda: connection.execute(waiting).fetchone() == (0,), "no statement waits any more", SECONDS)
    assert {answer.status_code for answer in answers} == {503}
    assert server.ask("POST", "/v1/events", json=EVENT).status_code == 202
