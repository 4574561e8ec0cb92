"""Webhooks of a real server: they leave soon, and none is lost when the server is killed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.config.webhooks.receiver import Receiver, receiving
from tests.system.databases import fresh_database
from tests.system.server import Keys, Server, serving

pytestmark = [pytest.mark.system]

SETTINGS = {"WEBHOOK_ALLOW_HTTP": "true", "WEBHOOK_PRIVATE_NETWORKS": "127.0.0.0/8"}
_PREAMBLE = """
from django.utils import timezone
from config.change_log.writing import Actor
from config.models import Source, Webhook
from config.webhooks.writes import create_webhook, delete_webhook
actor, at = Actor("test", Source.COMMAND), timezone.now()
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, prepared: tuple[str, Keys]) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("server")
    template, keys = prepared
    with fresh_database(folder, template) as url, serving(folder, url, keys=keys, **SETTINGS) as running:
        yield running


@contextmanager
def webhook(server: Server, *, is_held: bool = False) -> Iterator[Receiver]:
    """A receiver of all that happens until the block ends."""
    with receiving(204, is_held=is_held) as receiver:
        run(server, f"create_webhook(name='test', url={receiver.url!r}, actor=actor, now=at)")
        try:
            yield receiver
        finally:
            run(server, "delete_webhook(Webhook.objects.get(), actor=actor, now=at)")


def run(server: Server, code: str) -> None:
    server.run("manage.py", "shell", "--verbosity", "0", "--command", _PREAMBLE + code)


def create_flag(server: Server, key: str) -> None:
    assert server.ask("POST", "/v1/flags", json={"key": key}).status_code == 201


def keys_of(body: bytes) -> list[str]:
    """The objects of the changes that a message tells of."""
    return [change["object"]["key"] for change in json.loads(body)["data"]["changes"]]


def test_change__of_a_flag__is_received_with_its_actor(server: Server) -> None:
    with webhook(server) as receiver:
        create_flag(server, "shop")
        body = receiver.get().body
    assert json.loads(body)["data"]["actor"].startswith("key ")
    assert keys_of(body) == ["shop"]


def test_server__killed_before_the_receiver_answers__delivers_once_more_with_the_same_id(server: Server) -> None:
    """The receiver has the message and does not answer until the server is dead, so the server cannot know that.

    A change that was made while no server ran is delivered by the next one.
    """
    with webhook(server, is_held=True) as receiver:
        create_flag(server, "held")
        first = receiver.get()
        server.kill()
        server.run("manage.py", "create_key", "--name", "made meanwhile", "--scope", "client")
        assert receiver.received.empty()
        receiver.release()
        server.start()
        others = [receiver.get(timeout=120) for _ in range(2)]
        [second] = [other for other in others if other.headers["webhook-id"] == first.headers["webhook-id"]]
        assert second.body == first.body
        [meanwhile] = [other for other in others if other is not second]
        assert keys_of(meanwhile.body) == ["made meanwhile"]
        create_flag(server, "other")  # no attempt of the first message is left behind
        assert keys_of(receiver.get().body) == ["other"]


def test_two_hosts__on_one_database__deliver_each_message_once(server: Server) -> None:
    url = server.environment["DATABASE_URL"]
    options = {**SETTINGS, "SECRET_KEY": server.environment["SECRET_KEY"]}
    if url.startswith("sqlite"):  # which serves one host: its processes share a folder
        options["RUNTIME_DIR"] = server.environment["RUNTIME_DIR"]
    folder = server.folder / "second"
    folder.mkdir()
    with serving(folder, url, **options) as second, webhook(server) as receiver:
        for at in range(20):
            create_flag((server, second)[at % 2], f"flag-{at}")
        create_flag(server, "last")
        ids = [receiver.get().headers["webhook-id"] for _ in range(21)]
        assert len({*ids}) == 21
        assert receiver.received.empty()
