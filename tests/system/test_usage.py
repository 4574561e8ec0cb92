"""Counts of evaluations: those of all workers add up, none is lost when a server stops, few when it is killed."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.answers import data
from tests.system.load import ANSWERED, REFUSED, Question, load
from tests.system.server import Server, wait_until

pytestmark = pytest.mark.system

SECONDS_TO_COUNT = 15
"""Workers store every five seconds."""
EVALUATE = "/v1/flags/checkout/evaluate"


def create_flag(server: Server) -> None:
    server.ask("POST", "/v1/flags", json={"key": "checkout", "enabled": True}).raise_for_status()


def evaluate(server: Server, times: int) -> None:
    """Each on a connection of its own, so that every worker gets some."""
    for _ in range(times):
        server.ask("POST", EVALUATE, json={"userId": "ada"}).raise_for_status()


def usage(server: Server) -> Any:
    return data(server.ask("GET", "/v1/flags/checkout/usage"))


def question(server: Server) -> Question:
    headers = {**server.headers("client"), "Content-Type": "application/json"}
    answer = b'{"data":{"enabled":true,"reason":"default"}}'
    return Question(server.port, EVALUATE, headers, json.dumps({"userId": "ada"}).encode(), answer, pause=0.005)


def test_counts__of_two_workers__add_up(start_server: Callable[..., Server]) -> None:
    server = start_server(workers=2)
    create_flag(server)
    evaluate(server, 200)
    wait_until(lambda: usage(server)["total"] == 200, "all are counted", SECONDS_TO_COUNT)
    evaluate(server, 50)
    wait_until(lambda: usage(server)["total"] == 250, "those are added", SECONDS_TO_COUNT)
    assert [outcome["outcome"] for outcome in usage(server)["outcomes"]] == ["on"]


def test_counts__server_stopped__are_all_there(start_server: Callable[..., Server]) -> None:
    server = start_server()
    create_flag(server)
    evaluate(server, 30)
    assert server.stop() == 0
    server.start()
    assert usage(server)["total"] == 30


def test_counts__server_stopped_while_requests_come_in__are_as_many_as_were_answered(
    start_server: Callable[..., Server],
) -> None:
    server = start_server()
    create_flag(server)
    with load(question(server), processes=1, on_fresh=2, on_kept=4) as counted:
        wait_until(lambda: usage(server)["total"] > 500, "many are counted", SECONDS_TO_COUNT)
        assert server.stop() == 0
    assert counted.keys() <= {ANSWERED, REFUSED}
    server.start()
    assert usage(server)["total"] == counted[ANSWERED] > 500


def test_counts__main_process_killed__are_stored_by_the_workers_that_end_then(
    start_server: Callable[..., Server],
) -> None:
    server = start_server()
    create_flag(server)
    evaluate(server, 30)
    workers = server.worker_pids()
    assert server.process is not None
    os.kill(server.process.pid, signal.SIGKILL)
    server.process.wait()
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers), "the workers end", 30)
    server.kill()
    server.start()
    assert usage(server)["total"] == 30


def test_counts__server_killed__lacks_none_but_the_last_seconds(start_server: Callable[..., Server]) -> None:
    server = start_server()
    create_flag(server)
    evaluate(server, 40)
    wait_until(lambda: usage(server)["total"] == 40, "all are counted", SECONDS_TO_COUNT)
    evaluate(server, 5)
    server.kill()
    server.start()
    assert 40 <= usage(server)["total"] <= 45
