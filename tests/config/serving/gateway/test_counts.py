"""What metrics count of requests: each once, by its operation, whoever answers it."""

from __future__ import annotations

import pytest

from config.monitoring import counting
from config.serving.gateway.measuring import OTHER, subject_of
from tests.config.serving.gateway.servers import Server
from tests.counted import counted, counting_anew, of
from tests.factories import ExperimentFactory

pytestmark = pytest.mark.django_db(transaction=True)

EVALUATE, TRACK, USER = "/v1/flags/f/evaluate", "/v1/events", b'{"userId": "u"}'
EVENT = b'{"id": "01937a5e-9c1b-7d3a-8f00-4e1d2c3b4a59", "event": "view", "userId": "%s"}'
SAME_ID = EVENT.replace(b"view", b"click") % b"u"
DRIVEN = {"key": "f", "serves": {"control": False, "green": True}}


@pytest.mark.parametrize(
    ("method", "path", "body", "headers", "operation", "status"),
    [
        ("POST", EVALUATE, USER, {}, "evaluate_flag", 200),
        ("POST", EVALUATE, USER, {"Cookie": "a=b"}, "evaluate_flag", 200),
        ("POST", "/v1/evaluate", USER, {}, "evaluate_flags", 200),
        ("POST", "/ofrep/v1/evaluate/flags/f", b'{"context": {"targetingKey": "u"}}', {}, "ofrep_evaluate_flag", 200),
        ("POST", "/ofrep/v1/evaluate/flags", b'{"context": {}}', {}, "ofrep_evaluate_flags", 200),
        ("GET", "/v1/flags", b"", {}, "list_flags", 200),
        ("HEAD", "/v1/flags", b"", {}, "list_flags", 200),
        ("GET", "/v1/flags/f", b"", {}, "get_flag", 200),
        ("GET", "/v1/flags", b"", {"Authorization": None}, "list_flags", 401),
        ("PUT", "/v1/flags", b"", {}, "other", 405),
        ("GET", "/v1/nowhere", b"", {}, "other", 404),
        ("GET", "/admin/", b"", {"Authorization": None}, "admin", 302),
        ("GET", "/guide/", b"", {}, "guide", 200),
        ("GET", "/static/config/admin.css", b"", {}, "other", 200),
        ("GET", "/livez", b"", {}, "probe", 200),
        ("GET", "/metrics", b"", {}, "probe", 200),
        ("POST", EVALUATE, USER, {"Host": "not-allowed.example"}, "evaluate_flag", 400),
    ],
)  # fmt: skip
def test_request__of_any_kind__is_counted_once_by_its_operation(
    server: Server, method: str, path: str, body: bytes, headers: dict[str, str | None], operation: str, status: int
) -> None:
    with counting_anew() as counts:
        assert server.ask(method, path, body, **headers).status == status
    assert of(counts, "requests_total") == {(operation, str(status)): 1}
    assert of(counts, "request_duration_seconds") == {(operation,): 1}


def test_request__for_which_no_thread_is_free__is_counted_by_its_operation(server: Server) -> None:
    server.others.is_full = server.together.is_full = True
    with counting_anew() as counts:
        server.ask("GET", "/v1/flags")
        server.ask("POST", TRACK, EVENT % b"u")
    assert of(counts, "requests_total") == {("list_flags", "503"): 1, ("track_event", "503"): 1}


def test_request__whose_body_is_late__is_counted_once_with_408(server: Server) -> None:
    with counting_anew() as counts:
        server.cut(EVALUATE, USER, server.gateway._readers, Authorization=f"Bearer {server.key}")
    assert of(counts, "requests_total") == {("evaluate_flag", "408"): 1}


def test_subject__path_that_is_no_text__is_other() -> None:
    assert subject_of({"PATH_INFO": "/\xff", "REQUEST_METHOD": "GET"}) is OTHER


@pytest.mark.parametrize("headers", [{}, {"Cookie": "a=b"}], ids=["lane", "django"])
def test_evaluations__that_succeed_or_not__are_counted_by_outcome(
    server: Server, monkeypatch: pytest.MonkeyPatch, headers: dict[str, str]
) -> None:
    server.ask("POST", EVALUATE, USER, **headers)  # which loads the state
    with counting_anew() as counts:
        server.ask("POST", EVALUATE, USER, **headers)
        server.ask("POST", "/v1/evaluate", USER, **headers)
        server.ask("POST", "/v1/flags/unknown/evaluate", USER, **headers)
        server.ask("POST", EVALUATE, b"{}", **headers)
    assert of(counts, "evaluations_total") == {("fresh",): 2, ("refused",): 2}
    with counting_anew() as counts, monkeypatch.context() as patch:
        patch.setattr("flags.usage.counting.snapshot.lateness", lambda: None)
        server.ask("POST", EVALUATE, USER, **headers)
    assert of(counts, "evaluations_total") == {("stale",): 1}


def test_evaluation__for_which_no_thread_is_free__has_failed(server: Server) -> None:
    server.evaluations.is_full = True
    with counting_anew() as counts:
        assert server.ask("POST", EVALUATE, USER, Cookie="a=b").status == 503
    assert of(counts, "evaluations_total") == {("failed",): 1}


@pytest.mark.parametrize("headers", [{}, {"Cookie": "a=b"}], ids=["lane", "django"])
def test_events__sent_singly__are_counted_by_their_answer(server: Server, headers: dict[str, str]) -> None:
    with counting_anew() as counts:
        bodies = (EVENT % b"u", EVENT % b"u", SAME_ID, EVENT % b"")
        answers = [server.ask("POST", TRACK, body, **headers).status for body in bodies]
        server.ask("POST", TRACK, b"{}{", **headers)
    assert answers == [202, 202, 400, 400]
    assert of(counts, "events_total") == {("accepted",): 1, ("duplicate",): 1, ("rejected",): 3}


def test_events__of_a_batch__are_counted_by_their_answers(server: Server) -> None:
    events = b", ".join([EVENT % b"u", EVENT % b"u", SAME_ID, EVENT % b"", b'{"event": "buy", "userId": "u"}'])
    with counting_anew() as counts:
        assert server.ask("POST", "/v1/events/batch", b'{"events": [%s]}' % events).status == 202
        assert server.ask("POST", "/v1/events/batch", b'{"events": [{}, {}]}').status == 400
    assert of(counts, "events_total") == {("accepted",): 2, ("duplicate",): 1, ("rejected",): 4}


@pytest.mark.parametrize("headers", [{}, {"Cookie": "a=b"}], ids=["lane", "django"])
def test_variants__of_users_known_and_new__are_counted_by_their_source(server: Server, headers: dict[str, str]) -> None:
    path = f"/v1/experiments/{ExperimentFactory(running=True).key}/variant"
    with counting_anew() as counts:
        for _ in range(3):  # recorded, read, and remembered
            assert server.ask("POST", path, USER, **headers).status == 200
        assert server.ask("POST", "/v1/experiments/unknown/variant", USER, **headers).status == 404
    assert of(counts, "variant_answers_total") == {("database",): 2, ("remembered",): 1}
    assert of(counts, "exposures_recorded_total") == {("assignment",): 1}


def test_exposures__reported_by_events__are_counted_once_committed(server: Server) -> None:
    experiment = ExperimentFactory(running=True)
    properties = b'{"experimentId": "%s", "variant": "green"}' % experiment.key.encode()
    with counting_anew() as counts:
        for _ in range(2):
            body = b'{"event": "exposure", "userId": "u", "properties": %s}' % properties
            assert server.ask("POST", TRACK, body).status == 202
    assert of(counts, "exposures_recorded_total") == {("report",): 1}


def test_gauges__of_pools_that_are_busy__say_so(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting.process, "measuring", [])
    gateway = type(server.gateway)(server.gateway._lane, server.gateway._is_stopping)  # with pools of its own
    gateway._others._busy.add(1)
    gateway._evaluations._waiting[object()] = 0.0  # type: ignore[index]
    gateway._measure()
    numbers = counted()
    assert of(numbers, "pool_busy_threads")["database",] == 1
    assert of(numbers, "queue_length") == {("evaluation",): 1, ("database",): 0, ("events",): 0}
    assert of(numbers, "pool_threads")["evaluation",] == 4
    assert of(numbers, "bodies_being_read") == {("key",): 0, ("browser",): 0, ("refused",): 0}


def test_flag_that_an_experiment_drives__while_the_database_is_away__is_postponed_and_recorded_later(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    ExperimentFactory(running=True, flag=DRIVEN)
    server.ask("POST", "/v1/evaluate", USER)  # which loads the state
    with counting_anew() as counts:
        outage(monkeypatch, is_away=True)
        for _ in range(2):
            assert server.ask("POST", EVALUATE, USER).status == 200
    assert of(counts, "exposures_postponed_total") == {(): 2}
    assert of(counts, "exposures_recorded_total") == {}
    with counting_anew() as counts:
        outage(monkeypatch, is_away=False)
        assert server.ask("POST", EVALUATE, USER).status == 200
    assert of(counts, "exposures_postponed_total") == {}
    assert of(counts, "exposures_recorded_total") == {("assignment",): 1}


def outage(monkeypatch: pytest.MonkeyPatch, *, is_away: bool) -> None:
    """Let evaluations know that the database is away, or that it is back."""
    for name in ("_reading", "_recording"):
        monkeypatch.setattr(f"experiments.exposures.assignment.{name}._is_open", is_away)
        monkeypatch.setattr(f"experiments.exposures.assignment.{name}._next_try", float("inf") if is_away else 0)
