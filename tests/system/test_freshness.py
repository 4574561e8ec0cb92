"""What was written is in force for the next request, whichever worker, process or host serves it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.system.server import Server, wait_until

pytestmark = pytest.mark.system


def test_toggle__followed_by_an_evaluation_on_a_fresh_connection__is_never_stale(server: Server) -> None:
    assert len(server.worker_pids()) == 2
    assert server.ask("POST", "/v1/flags", json={"key": "toggled"}).status_code == 201
    stale = []
    with server.client() as writer:
        for at in range(2000):
            enabled = at % 2 == 0
            assert writer.patch("/v1/flags/toggled", json={"enabled": enabled}).status_code == 200
            answer = server.ask("POST", "/v1/flags/toggled/evaluate", json={"userId": "u"})
            if answer.json() != {"data": {"enabled": enabled, "reason": "default" if enabled else "disabled"}}:
                stale.append(at)
    assert stale == []


def test_toggle__seen_through_every_operation_that_shows_it__is_the_same(server: Server) -> None:
    assert server.ask("POST", "/v1/flags", json={"key": "shown"}).status_code == 201
    for enabled in (True, False) * 10:
        server.ask("PATCH", "/v1/flags/shown", json={"enabled": enabled})
        assert server.ask("GET", "/v1/flags/shown").json()["data"]["enabled"] is enabled
        listed = server.ask("GET", "/v1/flags", params={"search": "shown"}).json()["data"]
        assert [flag["enabled"] for flag in listed] == [enabled]


def test_key__made_and_revoked_by_commands__counts_for_the_next_request(server: Server) -> None:
    for _ in range(3):
        secret = server.run("manage.py", "create_key", "--name", "brief", "--scope", "server").strip()
        with server.client(key=secret) as client:
            assert client.get("/v1/flags").status_code == 200
            server.run("manage.py", "revoke_key", secret[:12])
            # On connections of their own, so that either worker is asked.
            assert {server.ask("GET", "/v1/flags", key=secret).status_code for _ in range(6)} == {401}
            assert client.get("/v1/flags").status_code == 401


def test_experiment__started__assigns_at_once_on_every_worker(server: Server) -> None:
    variants = [{"key": "a", "weight": 1}, {"key": "b", "weight": 1}]
    for at in range(10):
        assert server.ask("POST", "/v1/experiments", json={"key": f"e{at}", "variants": variants}).status_code == 201
        assert server.ask("POST", f"/v1/experiments/e{at}/start").status_code == 200
        asked = [server.ask("POST", f"/v1/experiments/e{at}/variant", json={"userId": "u"}) for _ in range(4)]
        assert {response.status_code for response in asked} == {200}
        assert server.ask("POST", f"/v1/experiments/e{at}/stop").status_code == 200
        asked = [server.ask("POST", f"/v1/experiments/e{at}/variant", json={"userId": "u"}) for _ in range(4)]
        assert {response.status_code for response in asked} == {409}


def test_servers__of_two_hosts_on_one_database__follow_each_other(start_server: Callable[..., Server]) -> None:
    """What the hosts share is the database alone: each has a RUNTIME_DIR of its own."""
    here = start_server()
    there = start_server(here.environment["DATABASE_URL"])
    assert here.environment["RUNTIME_DIR"] != there.environment["RUNTIME_DIR"]
    for writer, reader in ((here, there), (there, here)) * 2:
        key = f"flag-{writer.port}"
        writer.ask("POST", "/v1/flags", json={"key": key})
        for enabled in (True, False):
            assert writer.ask("PATCH", f"/v1/flags/{key}", json={"enabled": enabled}).status_code == 200

            def is_followed(key: str = key, enabled: bool = enabled, reader: Server = reader) -> bool:
                answer = reader.ask("POST", f"/v1/flags/{key}/evaluate", json={"userId": "u"})
                return answer.status_code == 200 and answer.json()["data"]["enabled"] is enabled

            wait_until(is_followed, "the other host follows", 10)
    secret = here.run("manage.py", "create_key", "--name", "shared", "--scope", "server").strip()
    wait_until(lambda: there.ask("GET", "/v1/flags", key=secret).status_code == 200, "the key is known there", 10)
    here.run("manage.py", "revoke_key", secret[:12])
    wait_until(lambda: there.ask("GET", "/v1/flags", key=secret).status_code == 401, "it is revoked there", 10)


def test_toggle__after_the_signal_file_was_removed_and_a_worker_died__is_soon_never_stale_again(server: Server) -> None:
    """Temporary folders are cleaned by others; a worker that starts then must not share a file of its own."""
    assert server.ask("POST", "/v1/flags", json={"key": "cleaned"}).status_code == 201
    (Path(server.environment["RUNTIME_DIR"]) / "signal").unlink()
    dead = server.worker_pids()[0]
    os.kill(dead, signal.SIGKILL)
    wait_until(lambda: len({*server.worker_pids()} - {dead}) == 2, "the worker is replaced", 30)
    wait_until(lambda: count_stale(server, "cleaned", toggles=60) == 0, "the workers share one file again", 30)


def count_stale(server: Server, key: str, *, toggles: int) -> int:
    stale = 0
    for at in range(toggles):
        enabled = at % 2 == 0
        assert server.ask("PATCH", f"/v1/flags/{key}", json={"enabled": enabled}).status_code == 200
        answer = server.ask("POST", f"/v1/flags/{key}/evaluate", json={"userId": "u"})
        stale += answer.json()["data"]["enabled"] is not enabled
    return stale
