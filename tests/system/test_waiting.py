"""Evaluations go on, and none of them fails, while clients are silent and while writes wait for the database."""

from __future__ import annotations

import os
import sqlite3
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import httpx
import psycopg
import pytest

from tests.system.connections import ENOUGH_FOR_EVERY_WORKER
from tests.system.databases import for_psycopg, fresh_database
from tests.system.load import ANSWERED
from tests.system.relay import relayed
from tests.system.server import Keys, Server, serving, wait_until
from tests.system.slow_clients import PATH, dripping, idle, silent, statuses
from tests.system.traffic import evaluating, make_flags

pytestmark = [pytest.mark.system, pytest.mark.faults]

SECONDS = 60
WRITERS = 64
EVENT = {"event": "view", "userId": "u"}
BATCH = {"events": [EVENT]}

on_postgresql = pytest.mark.skipif(
    os.environ.get("DATABASE_URL", "sqlite").startswith("sqlite"), reason="SQLite has no connections"
)


@contextmanager
def evaluating_well(server: Server) -> Iterator[None]:
    """Evaluate flags all the while. Every single evaluation must be answered."""
    with evaluating(server) as counted:
        yield
        assert evaluate(server, 20) == {200: 20}
    assert counted.keys() == {ANSWERED}, counted


@contextmanager
def prepared_server(folder: Path, url: str, keys: Keys, **options: str) -> Iterator[Server]:
    """A server that waits for little, knows a flag, and has an experiment that drives another."""
    limits = {"BODY_TIMEOUT": "1", "DATABASE_TIMEOUT": "2"}
    with serving(folder, url, keys=keys, **limits, **options) as running:
        make_flags(running)
        yield running


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, prepared: tuple[str, Keys]) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("server")
    template, keys = prepared
    with fresh_database(folder, template) as url, prepared_server(folder, url, keys) as running:
        yield running


def test_evaluations__1000_slow_clients_without_a_key__are_all_answered(server: Server) -> None:
    with ExitStack() as opened:
        quiet = opened.enter_context(silent(server, 500))
        slow = opened.enter_context(dripping(server, 500))
        with evaluating_well(server):
            assert statuses([*quiet, *slow]) == {"401": 1000}


def test_evaluations__3000_idle_connections__are_all_answered(server: Server) -> None:
    with idle(server, 3000), evaluating_well(server):
        pass


def test_bodies__of_slow_clients_with_a_key__are_cut_off_after_the_timeout(server: Server) -> None:
    key = server.keys["production"]["client"]
    with ExitStack() as opened:
        quiet = opened.enter_context(silent(server, 15, key=key))
        slow = opened.enter_context(dripping(server, 15, key=key))
        with evaluating_well(server):
            assert statuses([*quiet, *slow]) == {"408": 30}


def test_evaluations__writes_wait_for_a_lock__are_all_answered_and_writes_get_503(server: Server) -> None:
    check_writes_that_wait(server)


def test_evaluations__writes_wait_for_a_lock_without_the_fast_lane__are_all_answered_and_writes_get_503(
    tmp_path: Path, prepared: tuple[str, Keys]
) -> None:
    template, keys = prepared
    with (
        fresh_database(tmp_path, template) as url,
        prepared_server(tmp_path, url, keys, FAST_LANE="false") as server,
    ):
        check_writes_that_wait(server)


def check_writes_that_wait(server: Server) -> None:
    assert {get_variant_with_cookie(server) for _ in range(2 * ENOUGH_FOR_EVERY_WORKER)} == {200}
    with (
        ThreadPoolExecutor(WRITERS) as writers,
        locked(server.environment["DATABASE_URL"]),
        evaluating_well(server),
    ):
        batches = [writers.submit(server.ask, "POST", "/v1/events/batch", json=BATCH) for _ in range(WRITERS // 2)]
        variants = [get_variant_with_cookie(server) for _ in range(ENOUGH_FOR_EVERY_WORKER)]
        answers = write_together(server, writers)
        assert {batch.result(SECONDS).status_code for batch in batches} == {503}
    assert {*variants} == {200}
    assert Counter(answer.status_code for answer in answers) == {503: WRITERS}
    assert all(int(answer.headers["Retry-After"]) > 0 for answer in answers)
    assert server.ask("POST", "/v1/events", json=EVENT).status_code == 202


@on_postgresql
def test_evaluations__connections_to_the_database_fall_silent__are_all_answered_and_writes_find_new_ones(
    tmp_path: Path, prepared: tuple[str, Keys]
) -> None:
    template, keys = prepared
    with (
        fresh_database(tmp_path, template) as url,
        relayed(url) as (through, relay),
        prepared_server(tmp_path, through, keys) as server,
    ):
        with ThreadPoolExecutor(WRITERS) as writers:
            assert {answer.status_code for answer in write_together(server, writers)} == {202}
            with evaluating_well(server):
                relay.silence()
                answers = write_together(server, writers)
                wait_until(
                    lambda: {answer.status_code for answer in write_together(server, writers)} == {202},
                    "writes work again",
                    SECONDS,
                )
        assert {answer.status_code for answer in answers} <= {202, 503}
        assert "Traceback" not in server.log.read_text()


def write_together(server: Server, writers: ThreadPoolExecutor) -> list[httpx.Response]:
    writes = [writers.submit(server.ask, "POST", "/v1/events", json=EVENT) for _ in range(WRITERS)]
    return [write.result(SECONDS) for write in writes]


def get_variant_with_cookie(server: Server) -> int:
    """Return the status of a variant that the fast lane leaves to Django, on a connection of its own."""
    headers = {**server.headers(), "Cookie": "a=b"}
    url = f"{server.url}/v1/experiments/driving/variant"
    return httpx.post(url, json={"userId": "remembered"}, headers=headers, timeout=SECONDS).status_code


def evaluate(server: Server, times: int) -> Counter[int]:
    answers = (httpx.post(f"{server.url}{PATH}", json={"userId": "u"}, headers=server.headers()) for _ in range(times))
    return Counter(answer.status_code for answer in answers)


@contextmanager
def locked(url: str) -> Iterator[None]:
    """Keep all others from writing events."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield
            connection.execute("ROLLBACK")
        return
    with psycopg.connect(for_psycopg(url)) as connection:
        connection.execute("LOCK TABLE events_event")
        yield
