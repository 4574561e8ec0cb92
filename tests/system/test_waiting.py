"""Evaluations go on, and none of them fails, while clients are silent and while writes wait for the database."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager

import httpx
import psycopg
import pytest

from tests.system.databases import for_psycopg, fresh_database
from tests.system.load import ANSWERED, Question, load
from tests.system.server import Keys, Server, serving
from tests.system.slow_clients import PATH, dripping, idle, silent, statuses

pytestmark = pytest.mark.system

ON = b'{"data":{"enabled":true,"reason":"default"}}'
SECONDS = 60
WRITERS = 64


def evaluations(server: Server) -> Question:
    headers = {**server.headers("client"), "Content-Type": "application/json"}
    return Question(server.port, PATH, headers, json.dumps({"userId": "u"}).encode(), ON)


@contextmanager
def evaluating(server: Server) -> Iterator[None]:
    """Evaluate flags all the while, on fresh and on kept connections. Every single one must be answered."""
    with load(evaluations(server), processes=1, on_fresh=2, on_kept=4) as counted:
        yield
        assert evaluate(server, 20) == {200: 20}
    assert counted.keys() == {ANSWERED}, counted


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, prepared: tuple[str, Keys]) -> Iterator[Server]:
    """A server that waits for little, and knows a flag."""
    folder = tmp_path_factory.mktemp("server")
    template, keys = prepared
    limits = {"BODY_TIMEOUT": "1", "DATABASE_TIMEOUT": "2"}
    with fresh_database(folder, template) as url, serving(folder, url, keys=keys, **limits) as running:
        assert running.ask("POST", "/v1/flags", json={"key": "known", "enabled": True}).status_code == 201
        yield running


def test_evaluations__1000_slow_clients_without_a_key__are_all_answered(server: Server) -> None:
    with ExitStack() as opened:
        quiet = opened.enter_context(silent(server, 500))
        slow = opened.enter_context(dripping(server, 500))
        with evaluating(server):
            assert statuses([*quiet, *slow]) == {"401": 1000}


def test_evaluations__3000_idle_connections__are_all_answered(server: Server) -> None:
    with idle(server, 3000), evaluating(server):
        pass


def test_bodies__of_slow_clients_with_a_key__are_cut_off_after_the_timeout(server: Server) -> None:
    key = server.keys["production"]["client"]
    with ExitStack() as opened:
        quiet = opened.enter_context(silent(server, 15, key=key))
        slow = opened.enter_context(dripping(server, 15, key=key))
        with evaluating(server):
            assert statuses([*quiet, *slow]) == {"408": 30}


def test_evaluations__writes_wait_for_a_lock__are_all_answered_and_writes_get_503(server: Server) -> None:
    event = {"event": "view", "userId": "u"}
    with ThreadPoolExecutor(WRITERS) as writers, locked(server.environment["DATABASE_URL"]), evaluating(server):
        writes = [writers.submit(server.ask, "POST", "/v1/events", json=event) for _ in range(WRITERS)]
        answers = [write.result(SECONDS) for write in writes]
    assert Counter(answer.status_code for answer in answers) == {503: WRITERS}
    assert all(int(answer.headers["Retry-After"]) > 0 for answer in answers)
    assert server.ask("POST", "/v1/events", json=event).status_code == 202


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
