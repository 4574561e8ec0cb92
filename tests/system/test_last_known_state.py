"""Evaluation outlives the database: whatever that does, before or after a change, in workers old and new."""

from __future__ import annotations

import http.client
import json
import os
import stat
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import httpx
import pytest

from tests.system.cluster import Cluster
from tests.system.connections import ENOUGH_FOR_EVERY_WORKER
from tests.system.outages import frozen, locked, refusing
from tests.system.server import PROXY_HEADERS, Server, wait_until

pytestmark = [pytest.mark.system, pytest.mark.faults]

on_postgresql = pytest.mark.skipif(
    os.environ.get("DATABASE_URL", "sqlite").startswith("sqlite"),
    reason="has a PostgreSQL of its own in any case: once is enough, in the run on PostgreSQL",
)
USER = {"userId": "u"}


def ages(server: Server, key: str = "known", user: str = "u") -> set[str | None]:
    """Have every worker evaluate the flag, which must be on, and return what they say of the age of that."""
    found = set()
    for _ in range(ENOUGH_FOR_EVERY_WORKER):
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
        headers = {**server.headers("client"), "Content-Type": "application/json"}
        connection.request("POST", f"/v1/flags/{key}/evaluate", json.dumps({"userId": user}), headers)
        response = connection.getresponse()
        body = json.loads(response.read())
        connection.close()
        assert (response.status, body.get("data", {}).get("enabled")) == (200, True), body
        found.add(response.getheader("X-Stale"))
    return found


def is_stale_everywhere(server: Server, key: str = "known", user: str = "u") -> bool:
    return None not in ages(server, key, user)


def is_fresh_everywhere(server: Server) -> bool:
    return ages(server) == {None}


def readiness(server: Server) -> tuple[int, str]:
    """Return what a probe learns, which has no key and names the server by its address."""
    answer = httpx.get(f"http://127.0.0.1:{server.port}/readyz", headers={"Host": "10.1.2.3"})
    return answer.status_code, answer.json()["database"]


def has_saved(server: Server) -> bool:
    """Whether the file has the newest change."""
    newest = server.ask("GET", "/v1/audit", params={"limit": 1}).json()["data"][0]["revision"]
    file = Path(server.environment["RUNTIME_DIR"], "state")
    return file.exists() and f'"revision":{newest},'.encode() in file.read_bytes().splitlines()[0]


def kill_every_worker(server: Server) -> None:
    for killed in server.worker_pids():
        server.replace_worker(killed)


def recorded(server: Server, user: str) -> int:
    """Have the user evaluate the driven flag, and return how many users its experiment has by then."""
    ages(server, "driven", user)
    answer = server.ask_after_outage("GET", "/v1/experiments/e")
    return sum(variant["sampleSize"] for variant in answer.json()["data"]["results"].values())


def make_flag(server: Server, key: str) -> None:
    assert server.ask_after_outage("POST", "/v1/flags", json={"key": key, "enabled": True}).status_code == 201


@on_postgresql
def test_outage__of_any_kind__leaves_evaluation_as_it_was_in_workers_old_and_new(
    cluster: Cluster, start_server: Callable[..., Server]
) -> None:
    server = start_server(cluster.url)
    make_flag(server, "known")
    make_flag(server, "driven")
    serves = {"control": True, "green": True}
    variants = [{"key": key, "weight": 1} for key in serves]
    experiment = {"key": "e", "variants": variants, "flag": {"key": "driven", "serves": serves}}
    assert server.ask("POST", "/v1/experiments", json=experiment).status_code == 201
    assert server.ask("POST", "/v1/experiments/e/start").status_code == 200
    assert is_fresh_everywhere(server)
    wait_until(partial(has_saved, server), "the state is saved", 30)
    for number, outage in enumerate((refusing, frozen, locked), 1):
        check_outage(server, outage(cluster), user=f"user-{number}", expected=number)


def check_outage(server: Server, outage: AbstractContextManager[None], *, user: str, expected: int) -> None:
    """Check what the server does meanwhile, and that so many users are recorded afterwards."""
    with outage:
        wait_until(partial(is_stale_everywhere, server), "every worker says that it is stale", 30)
        assert is_stale_everywhere(server, "driven", user)
        kill_every_worker(server)
        assert is_stale_everywhere(server)
        assert is_stale_everywhere(server, "driven", user)
        assert readiness(server) == (200, "away")
    wait_until(partial(is_fresh_everywhere, server), "every worker follows again", 60)
    wait_until(lambda: recorded(server, user) == expected, "the user is recorded", 30)


@on_postgresql
def test_outage__change_just_before__is_known_to_a_server_that_starts_meanwhile(
    cluster: Cluster, start_server: Callable[..., Server]
) -> None:
    server = start_server(cluster.url)
    make_flag(server, "known")
    wait_until(partial(has_saved, server), "the state is saved", 30)
    file = Path(server.environment["RUNTIME_DIR"], "state")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    server.kill()
    with refusing(cluster):
        server.start()
        assert is_stale_everywhere(server)
        assert server.ask("POST", "/v1/events", json={"event": "e", **USER}).status_code == 503
        assert server.ask("POST", "/v1/flags/known/evaluate", key="made-up", json=USER).status_code == 401
        page = httpx.get(f"{server.url}/admin/", headers=PROXY_HEADERS, cookies={"halyard_session": "a" * 32})
        assert (page.status_code, "The database cannot answer now" in page.text) == (503, True)
    wait_until(partial(is_fresh_everywhere, server), "every worker follows again", 60)
    assert server.ask_after_outage("POST", "/v1/events", json={"event": "e", **USER}).status_code == 202


def test_server__database_without_its_tables__serves_the_last_known_state_until_they_are_there(
    start_server: Callable[..., Server],
) -> None:
    server = start_server()
    if not server.environment["DATABASE_URL"].startswith("sqlite"):
        pytest.skip("of SQLite, whose file may be missing")
    make_flag(server, "known")
    wait_until(partial(has_saved, server), "the state is saved", 30)
    assert server.stop() == 0
    file = Path(server.environment["DATABASE_URL"].removeprefix("sqlite:///"))
    moved = [part.rename(part.with_name(f"away-{part.name}")) for part in file.parent.glob(f"{file.name}*")]
    file.mkdir()  # which cannot be opened
    server.start()
    assert is_stale_everywhere(server)
    assert "This server starts from the last known state" in server.log.read_text()
    file.rmdir()
    wait_until(lambda: readiness(server) == (503, "up"), "the probe says that migrations are missing", 30)
    assert "The database lacks the migrations" in server.log.read_text()
    for part in file.parent.glob(f"{file.name}*"):
        part.unlink()
    for part in moved:
        part.rename(part.with_name(part.name.removeprefix("away-")))
    wait_until(partial(is_fresh_everywhere, server), "every worker follows again", 60)
    make_flag(server, "new")
