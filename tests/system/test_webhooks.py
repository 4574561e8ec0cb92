"""Webhooks of a real server: they leave soon, and none is lost when the server is killed."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.config.webhooks.receiver import Receiver, receiving
from tests.system.server import Server

pytestmark = [pytest.mark.system]

SETTINGS = {"WEBHOOK_ALLOW_HTTP": "true", "WEBHOOK_PRIVATE_NETWORKS": "127.0.0.0/8"}
ADD = """
import sys, config.serving.setup
from django.utils import timezone
from config.change_log.writing import Actor
from config.models import Source
from config.webhooks.changes import create_webhook
create_webhook(name="test", url=sys.argv[1], actor=Actor("test", Source.COMMAND), at=timezone.now())
"""


def add_webhook(server: Server, receiver: Receiver) -> None:
    server.run("-c", ADD, receiver.url)


def create_flag(server: Server, key: str) -> None:
    assert server.ask("POST", "/v1/flags", json={"key": key}).status_code == 201


def test_change__of_a_flag__is_received_with_its_actor(start_server: Callable[..., Server]) -> None:
    server = start_server(**SETTINGS)
    with receiving(204) as receiver:
        add_webhook(server, receiver)
        create_flag(server, "shop")
        data = json.loads(receiver.get().body)["data"]
    assert data["actor"].startswith("key ")
    assert [change["object"]["key"] for change in data["changes"]] == ["shop"]


def test_server__killed_before_the_receiver_answers__delivers_once_more_with_the_same_id(
    start_server: Callable[..., Server],
) -> None:
    """The receiver has the message and does not answer until the server is dead, so the server cannot know that."""
    server = start_server(**SETTINGS)
    with receiving(204, is_held=True) as receiver:
        add_webhook(server, receiver)
        create_flag(server, "shop")
        first = receiver.get()
        server.kill()
        receiver.release()
        server.start()
        second = receiver.get(timeout=120)
        assert second.headers["webhook-id"] == first.headers["webhook-id"]
        assert second.body == first.body
        create_flag(server, "other")  # no attempt of the first message is left behind
        assert receiver.get().headers["webhook-id"] != first.headers["webhook-id"]


def test_change__made_while_no_server_runs__is_delivered_by_the_next_one(start_server: Callable[..., Server]) -> None:
    server = start_server(**SETTINGS)
    with receiving(204) as receiver:
        add_webhook(server, receiver)
        server.kill()
        server.run("manage.py", "create_key", "--name", "made meanwhile", "--scope", "client")
        assert receiver.received.empty()
        server.start()
        data = json.loads(receiver.get().body)["data"]
    assert [change["object"]["key"] for change in data["changes"]] == ["made meanwhile"]


def test_two_hosts__on_one_database__deliver_each_message_once(start_server: Callable[..., Server]) -> None:
    first = start_server(**SETTINGS)
    second = Server(first.folder / "second", first.environment["DATABASE_URL"], **SETTINGS)
    second.folder.mkdir()
    second.environment["SECRET_KEY"] = first.environment["SECRET_KEY"]
    if first.environment["DATABASE_URL"].startswith("sqlite"):  # which serves one host: its processes share a folder
        second.environment["RUNTIME_DIR"] = first.environment["RUNTIME_DIR"]
    second.keys = first.keys
    second.start()
    try:
        with receiving(204) as receiver:
            add_webhook(first, receiver)
            for at in range(20):
                create_flag((first, second)[at % 2], f"flag-{at}")
            create_flag(first, "last")
            ids = [receiver.get().headers["webhook-id"] for _ in range(21)]
            assert len({*ids}) == 21
            assert receiver.received.empty()
    finally:
        second.kill()
