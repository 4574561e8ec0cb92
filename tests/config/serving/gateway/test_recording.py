"""Events that wait at the same time: they are recorded together, and each gets an answer of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import OperationalError
from django.dispatch import Signal

from events.models import Event
from events.recording import events_stored
from tests.config.serving.gateway.granian import Protocol
from tests.config.serving.gateway.servers import Server, error_of

pytestmark = pytest.mark.django_db(transaction=True)

TRACK = "/v1/events"
EVENT = b'{"event": "view", "userId": "u"}'


@contextmanager
def receiving(signal: Signal, receiver: Callable[..., None]) -> Iterator[None]:
    signal.connect(receiver, weak=False)
    try:
        yield
    finally:
        signal.disconnect(receiver)


def test_track__several_events_that_wait__are_recorded_at_once_and_answered_each(server: Server) -> None:
    def ask(body: bytes) -> Protocol:
        return server.take("POST", TRACK, body)

    named = b'{"id": "01937a5e-9c1b-7d3a-8f00-4e1d2c3b4a59", "event": "%s", "userId": "u"}'
    server.together.is_open = False
    answers = [ask(body) for body in (named % b"view", b'{"event": "", "userId": "u"}', named % b"buy", EVENT)]
    groups: list[int] = []
    with receiving(events_stored, lambda events, **_: groups.append(len(events))):
        server.gateway._perform_together(server.together.tasks)  # type: ignore[arg-type]
        for answer in answers:
            answer.wait()
    assert groups == [2]
    assert [answer.status for answer in answers] == [202, 400, 400, 202]
    assert len({answer.headers["X-Request-Id"] for answer in answers}) == 4
    assert [error_of(answer) for answer in answers[1:3]] == ["validation_failed"] * 2
    assert len(server.others.tasks) == 2  # which Django explains
    assert sorted(Event.objects.values_list("name", flat=True)) == ["view", "view"]


def test_track__database_fails__each_event_gets_503_and_none_is_tried_again(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise OperationalError("gone")

    server.together.is_open = False
    answers = [server.take("POST", TRACK, EVENT) for _ in range(3)]
    monkeypatch.setattr("events.recording.insert", fail)
    server.gateway._perform_together(server.together.tasks)  # type: ignore[arg-type]
    assert [(answer.status, answer.headers["Retry-After"]) for answer in answers] == [(503, "1")] * 3
    assert server.others.tasks == []


def test_track__answer_of_one_event_cannot_be_made__the_others_get_theirs(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.together.is_open = False
    answers = [server.take("POST", TRACK, EVENT) for _ in range(3)]
    made: list[int] = []

    def make(*_: Any) -> str:
        made.append(1)
        if len(made) == 2:
            raise RuntimeError
        return "r"

    monkeypatch.setattr("config.serving.fast_lane.request_id_of", make)
    server.gateway._perform_together(server.together.tasks)  # type: ignore[arg-type]
    assert [answer.status for answer in answers] == [202, 500, 202]
    assert Event.objects.count() == 3
