"""The thread that sends, one look at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from django.utils import timezone

from config.models import Delivery
from config.monitoring import counting
from config.webhooks import outbox
from config.webhooks import sender_thread as sender
from config.webhooks.sender_thread import MAX_IN_FLIGHT, MAX_IN_FLIGHT_EACH, Sender
from config.webhooks.sending import Outcome
from tests.config.webhooks.test_writes import make
from tests.factories import FlagFactory

pytestmark = pytest.mark.django_db
GOOD = Outcome(200, "", 0)


class World:
    """A sender whose attempts end when the test lets them."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []
        self.sent: list[tuple[str, Mapping[str, str]]] = []
        self.sender = Sender(self.send, self.waiting.append)

    def send(self, url: str, body: bytes, headers: Mapping[str, str]) -> Outcome:
        self.sent.append((url, headers))
        return GOOD

    def let_all_end(self) -> int:
        ending, self.waiting[:] = [*self.waiting], []
        for attempt in ending:
            attempt()
        return len(ending)


def test_look__several_changes__are_sent_a_few_at_a_time_until_all_are_delivered() -> None:
    make()
    for at in range(MAX_IN_FLIGHT_EACH + 2):
        FlagFactory(key=f"flag-{at}")
    world = World()
    world.sender.look()
    assert world.let_all_end() == MAX_IN_FLIGHT_EACH
    assert world.sender.record_ended()
    world.sender.look()
    assert world.let_all_end() == 2
    assert world.sender.record_ended()
    assert not world.sender.record_ended()
    assert {delivery.state for delivery in Delivery.objects.all()} == {"delivered"}
    assert len({headers["webhook-id"] for _, headers in world.sent}) == MAX_IN_FLIGHT_EACH + 2


def test_look__many_webhooks__stay_within_the_limit_of_all() -> None:
    for at in range(MAX_IN_FLIGHT):
        outbox.queue_test(make(name=f"{at}"), timezone.now())
        outbox.queue_test(make(name=f"{at}"), timezone.now())
    world = World()
    world.sender.look()
    assert world.let_all_end() == MAX_IN_FLIGHT


def test_attempt__that_fails_with_a_defect__is_recorded_as_failed(caplog: pytest.LogCaptureFixture) -> None:
    outbox.queue_test(make(), timezone.now())

    def fail(*_: Any) -> Outcome:
        raise RuntimeError("a defect")

    started: list[Callable[[], None]] = []
    failing = Sender(fail, started.append)
    failing.look()
    started[0]()
    assert failing.record_ended()
    delivery = Delivery.objects.get()
    assert delivery.attempts[0]["problem"] == "an error of the server (RuntimeError)"
    assert delivery.state == "waiting"


def test_sender__of_other_processes_than_the_first__is_not_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting.process, "name", "worker-2")
    before = threading.active_count()
    sender.start_in_first_worker()
    assert threading.active_count() == before
