"""Counts of evaluations: those of all workers add up, none is lost when a server stops, few when it is killed."""

from __future__ import annotations

import json
import secrets
from typing import Any

import pytest

from tests.answers import data
from tests.system.load import ANSWERED, REFUSED, Question, load
from tests.system.server import Server, wait_until

pytestmark = pytest.mark.system

SECONDS_TO_COUNT = 15
"""Workers store every five seconds."""
EVALUATE = "/v1/flags/{flag}/evaluate"


def make_flag(server: Server) -> str:
    """Return the key of a flag that nobody has evaluated yet."""
    key = f"flag-{secrets.token_hex(4)}"
    server.ask("POST", "/v1/flags", json={"key": key, "enabled": True}).raise_for_status()
    return key


def evaluate(server: Server, flag: str, times: int) -> None:
    """Each on a connection of its own, so that every worker gets some."""
    for _ in range(times):
        server.ask("POST", EVALUATE.format(flag=flag), json={"userId": "ada"}).raise_for_status()


def usage(server: Server, flag: str) -> Any:
    return data(server.ask("GET", f"/v1/flags/{flag}/usage"))


def question(server: Server, flag: str) -> Question:
    headers = {**server.headers("client"), "Content-Type": "application/json"}
    answer = b'{"data":{"enabled":true,"reason":"default"}}'
    path, body = EVALUATE.format(flag=flag), json.dumps({"userId": "ada"}).encode()
    return Question(server.port, path, headers, body, answer, pause=0.005)


def test_counts__of_two_workers__add_up(server: Server) -> None:
    flag = make_flag(server)
    evaluate(server, flag, 200)
    wait_until(lambda: usage(server, flag)["total"] == 200, "all are counted", SECONDS_TO_COUNT)
    evaluate(server, flag, 50)
    wait_until(lambda: usage(server, flag)["total"] == 250, "those are added", SECONDS_TO_COUNT)
    assert [outcome["outcome"] for outcome in usage(server, flag)["outcomes"]] == ["on"]


def test_counts__server_stopped_while_requests_come_in__are_as_many_as_were_answered(server: Server) -> None:
    flag = make_flag(server)
    with load(question(server, flag), processes=1, on_fresh=2, on_kept=4) as counted:
        wait_until(lambda: usage(server, flag)["total"] > 500, "many are counted", SECONDS_TO_COUNT)
        assert server.stop() == 0
    server.start()
    assert counted.keys() <= {ANSWERED, REFUSED}
    assert usage(server, flag)["total"] == counted[ANSWERED] > 500


def test_counts__server_killed__lacks_none_but_the_last_seconds(server: Server) -> None:
    flag = make_flag(server)
    evaluate(server, flag, 40)
    wait_until(lambda: usage(server, flag)["total"] == 40, "all are counted", SECONDS_TO_COUNT)
    evaluate(server, flag, 5)
    server.kill()
    server.start()
    assert 40 <= usage(server, flag)["total"] <= 45
