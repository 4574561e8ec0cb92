"""What the fast lane serves itself, what it passes on, and that Django gets the whole request then."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from django.db import OperationalError
from django.urls import path

from config.access.api_keys import live_keys, revoke_key
from config.models import ApiKey, Scope
from config.serving import wsgi
from config.serving.fast_lane import MAX_BYTES, Call, Fast, FastLane, Operations, ReplayedInput, Reply
from events.models import Event
from flags.api.evaluation_views import EvaluationViewSet
from tests.config.api.wire import environ_of, own_connection, send
from tests.conftest import ACTOR, NOON
from tests.factories import ExperimentFactory, FlagFactory, KeyFactory
from tests.fast_lane import lane

EVALUATE = "/v1/flags/f/evaluate"
USER = b'{"userId": "u"}'


@pytest.fixture
def key(db: None) -> str:
    FlagFactory(key="f", on=True)
    return KeyFactory(scope=Scope.CLIENT)[1]


def serve(key: str, path: str = EVALUATE, body: bytes = USER, method: str = "POST", **headers: str | None) -> Any:
    """Return what the lane itself answers, or None. Underscores in the names of headers stand for hyphens."""
    sent = {"Host": "testserver", "Content-Type": "application/json", "Authorization": f"Bearer {key}"}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    with own_connection():
        return lane.serve(environ_of(method, path, body, {**sent, **named}, "127.0.0.1"))


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        (EVALUATE, USER, "200 OK"),
        ("/v1/evaluate", USER, "200 OK"),
        ("/ofrep/v1/evaluate/flags/f", b'{"context": {}}', "200 OK"),
        ("/ofrep/v1/evaluate/flags", b'{"context": {}}', "200 OK"),
        ("/v1/events", b'{"event": "view", "userId": "u"}', "202 Accepted"),
    ],
)
def test_serve__request_as_most_clients_send_it__is_answered(key: str, path: str, body: bytes, status: str) -> None:
    served = serve(key, path, body, Origin="https://shop.example", User_Agent="x", X_Forwarded_For="10.0.0.1")
    assert served[0] == status
    assert dict(served[1])["access-control-allow-origin"] == "https://shop.example"


def test_serve__variant_of_a_user__only_if_it_is_remembered(
    key: str, monkeypatch: pytest.MonkeyPatch, django_assert_num_queries: Any
) -> None:
    path = f"/v1/experiments/{ExperimentFactory(key='e', running=True).key}/variant"
    assert serve(key, path) is None
    monkeypatch.setattr("experiments.exposures.assignment.assignment_cache.remembered", lambda user: "green")
    with django_assert_num_queries(0):
        assert json.loads(serve(key, path)[2])["data"]["variant"] == "green"


def test_admit__body_is_read__is_no_longer_in_the_environment(key: str) -> None:
    sent = {"Host": "testserver", "Content-Type": "application/json", "Authorization": f"Bearer {key}"}
    environ = environ_of("POST", EVALUATE, USER, sent, "127.0.0.1")
    assert lane.admit(environ).call.body == USER
    assert "wsgi.input" not in environ  # it could refer to the environment, and only the collector would free both


@pytest.mark.parametrize(
    "odd",
    [
        {"method": "GET"},
        {"path": f"{EVALUATE}?x=1"},
        {"path": f"{EVALUATE}/"},
        {"path": "/v1/flags/none/evaluate"},
        {"body": b""},
        {"body": b"{"},
        {"body": b'{"userId": "u", "userId": "v"}'},
        {"body": b'{"userId": "u", "x": 1}'},
        {"body": b'{"userId": "u"}' + b" " * MAX_BYTES},
        {"Cookie": "a=b"},
        {"Content_Type": "text/plain"},
        {"Content_Length": "-1"},
        {"Content_Length": "99"},
        {"Content_Encoding": "gzip"},
        {"Transfer_Encoding": "chunked"},
        {"Expect": "100-continue"},
        {"X_Unusual": "1"},
        {"Host": "evil.example"},
        {"Host": None},
        {"X_Environment": "staging"},
        {"Authorization": None},
        {"Authorization": "Bearer x"},
        {"Origin": "x" * 1000},
    ],
    ids=str,
)
def test_serve__odd_request__is_left_to_django(key: str, odd: dict[str, Any]) -> None:
    assert serve(key, **odd) is None


def test_track__key_revoked_while_the_event_waits__is_left_to_django(key: str) -> None:
    sent = {"Host": "testserver", "Content-Type": "application/json", "Authorization": f"Bearer {key}"}
    environ = environ_of("POST", "/v1/events", b'{"event": "view", "userId": "u"}', sent, "127.0.0.1")
    admitted = lane.admit(environ)
    assert admitted is not None
    revoke_key(ApiKey.objects.get(), actor=ACTOR, now=NOON)
    live_keys.load()
    with own_connection():
        assert lane.perform(admitted) is None
    assert environ["wsgi.input"].read() == admitted.call.body
    assert not Event.objects.exists()


def test_serve__request_of_a_refused_caller__reads_no_body_and_learns_nothing(key: str) -> None:
    known = dict(lane._kinds)
    environ = environ_of("POST", EVALUATE, USER, {"Host": "h", "X-API-Key": "x"}, "127.0.0.1")
    assert lane.serve(environ) is None
    assert environ["wsgi.input"].read() == USER
    assert lane._kinds == known


def test_lane__operation_fails__django_gets_the_whole_request(key: str) -> None:
    def fail(call: Call) -> Reply:
        raise RuntimeError(call.body)

    class FailingViewSet(EvaluationViewSet):
        fast_lane = {"evaluate": Fast(fail)}

    operations = Operations([path(EVALUATE[1:], FailingViewSet.as_view({"post": "evaluate"}))])
    headers = {"Host": "testserver", "Content-Type": "application/json", "Authorization": f"Bearer {key}"}
    environ = environ_of("POST", EVALUATE, USER, headers, "127.0.0.1")
    with own_connection():
        body = b"".join(FastLane(lane.application, operations)(environ, lambda *_: None))
    assert json.loads(body)["data"]["enabled"] is True


def test_track__database_fails__is_recorded_once_and_answered_as_by_django(
    key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def record(*arguments: Any) -> Any:
        calls.append(arguments)
        raise OperationalError("gone")

    monkeypatch.setattr("events.api.event_views.record_each", record)
    monkeypatch.setattr("events.api.event_views.record_one", record)
    headers = {"X-Request-Id": "r", "Authorization": f"Bearer {key}"}
    body = b'{"event": "view", "userId": "u"}'
    by_lane = send("POST", "/v1/events", body, headers)
    assert len(calls) == 1
    monkeypatch.setattr(lane, "serve", lambda environ: None)
    assert send("POST", "/v1/events", body, headers) == by_lane
    assert (by_lane.status, by_lane.headers["retry-after"]) == (503, "1")


def test_track__id_of_another_event__is_explained_by_django(key: str) -> None:
    body = b'{"event": "%s", "userId": "u", "id": "01937a5e-9c1b-7d3a-8f00-4e1d2c3b4a59"}'
    assert serve(key, "/v1/events", body % b"view")[0] == "202 Accepted"
    assert serve(key, "/v1/events", body % b"buy") is None
    assert Event.objects.count() == 1


@pytest.mark.parametrize("is_on", [True, False])
def test_application__with_the_setting__has_a_fast_lane_or_none(settings: Any, is_on: bool) -> None:
    settings.FAST_LANE = is_on
    assert isinstance(wsgi.make_application(), FastLane) is is_on


@pytest.mark.parametrize("sizes", [(-1,), (100,), (1, 2, 3, 4, 5, 6, 7), (3, -1), (7, 7), (0, 20)])
def test_replayed_input__read_in_any_pieces__is_the_whole(sizes: tuple[int, ...]) -> None:
    replayed = ReplayedInput(b"read\nalready, ", io.BytesIO(b"and\nnot yet"))
    whole = io.BytesIO(b"read\nalready, and\nnot yet")
    for size in sizes:
        assert replayed.read(size) == whole.read(size)


def test_replayed_input__by_lines__is_the_whole() -> None:
    replayed = ReplayedInput(b"one\ntw", io.BytesIO(b"o\nthree"))
    assert [replayed.readline() for _ in range(4)] == [b"one\n", b"two\n", b"three", b""]
    assert ReplayedInput(b"one\n", io.BytesIO()).readline(2) == b"on"
