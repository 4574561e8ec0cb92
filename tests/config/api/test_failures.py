"""When it is the service that fails: one shape, the id of the request in the log, and no secrets anywhere."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from django.db import DataError, InterfaceError, OperationalError
from rest_framework.response import Response

from config.errors import DetailCode, ErrorCode
from flags.engine import evaluation
from tests.config.api.conftest import World
from tests.config.api.wire import failure, send
from tests.outage import from_postgresql

SECRET = "hyd_m_this-is-a-secret-that-must-not-leak"


def _break(monkeypatch: Any, error: BaseException) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr("flags.changes.flag_changes.get_flag", fail)


@pytest.mark.parametrize("defect", [ZeroDivisionError("division"), KeyError("x"), DataError("bad"), AssertionError()])
def test_defect__in_a_view__is_an_internal_error_that_the_log_can_be_searched_for(
    world: World, monkeypatch, caplog, defect
):
    _break(monkeypatch, defect)
    error = failure(send("GET", "/v1/flags/known", key=world.key))
    assert error.keys() == {"code", "message", "requestId"}
    assert error["code"] == "internal_error"
    [record] = [record for record in caplog.records if record.name == "config.api.failures"]
    assert record.levelno == logging.ERROR
    assert error["requestId"] in record.getMessage()
    assert record.exc_info[1] is defect


def test_defect__in_the_engine__is_an_internal_error(world: World, monkeypatch):
    monkeypatch.setattr("flags.api.evaluations.evaluate", lambda *_: evaluation.no_such_thing)
    answer = send("POST", "/v1/flags/known/evaluate", b'{"userId": "u"}', key=world.key)
    assert (answer.status, failure(answer)["code"]) == (500, "internal_error")


def test_defect__of_rendering__is_an_internal_error(world: World, monkeypatch, caplog):
    monkeypatch.setattr("flags.api.flag_views.FlagViewSet._answer", lambda *_: Response(data={1j}))
    error = failure(send("GET", "/v1/flags/known", key=world.key))
    assert error["code"] == "internal_error"
    assert any(error["requestId"] in record.getMessage() for record in caplog.records)


def test_defect__outside_of_a_view__is_an_internal_error_that_the_log_can_be_searched_for(
    world: World, monkeypatch, caplog
):
    def fail(*_: Any) -> None:
        raise RuntimeError("a middleware broke")

    monkeypatch.setattr("django.middleware.common.CommonMiddleware.process_request", fail)
    error = failure(send("GET", "/v1/flags/known", key=world.key))
    assert error["code"] == "internal_error"
    assert any(error["requestId"] in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize(
    "lost", [OperationalError("server closed the connection"), InterfaceError("connection closed")]
)
def test_database__that_cannot_answer__is_unavailable_for_a_while(world: World, monkeypatch, caplog, lost):
    _break(monkeypatch, lost)
    answer = send("GET", "/v1/flags/known", key=world.key)
    error = failure(answer)
    assert (answer.status, error["code"]) == (503, "unavailable")
    assert answer.headers["retry-after"] == "1"
    [record] = [record for record in caplog.records if record.name == "config.api.failures"]
    assert record.levelno == logging.WARNING
    assert error["requestId"] in record.getMessage()
    assert "server closed" not in answer.body.decode()


@pytest.mark.parametrize("operation", ["POST /v1/events", "POST /v1/events/batch", "GET /v1/events"])
def test_database__that_cannot_answer__acknowledges_no_event(world: World, monkeypatch, operation):
    def fail(*_: Any, **__: Any) -> None:
        raise OperationalError("disk full")

    monkeypatch.setattr("events.api.event_views.record", fail)
    monkeypatch.setattr("events.api.event_views.record_one", fail)
    monkeypatch.setattr("events.api.event_views.record_each", fail)
    monkeypatch.setattr("events.api.event_views.EventViewSet.get_queryset", fail)
    method, path = operation.split()
    event = b'{"event": "view", "userId": "u"}'
    body = {"/v1/events": event, "/v1/events/batch": b'{"events": [' + event + b"]}"}[path] if method == "POST" else b""
    assert failure(send(method, path, body, key=world.key))["code"] == "unavailable"


def test_database__in_a_state_that_passes__is_unavailable_for_a_while(
    subtests: pytest.Subtests, world: World, monkeypatch
):
    for code in [
        "08006",  # connection lost
        "25006",  # takes reads only
        "25P03", "25P04",  # transaction ended because it took too long
        "40001", "40P01",  # given up in favour of another
        "53100", "53200", "53300",  # disk, memory or connections used up
        "55P03",  # somebody holds a lock
        "57014", "57P01", "57P02", "57P03", "57P05",  # cancelled, shut down, crashed, starting up, idle for too long
        "58030",  # the disk fails
    ]:  # fmt: skip
        with subtests.test(code=code):
            _break(monkeypatch, from_postgresql(code))
            answer = send("GET", "/v1/flags/known", key=world.key)
            assert (answer.status, failure(answer)["code"]) == (503, "unavailable")
            assert answer.headers["retry-after"] == "1"
            assert "PostgreSQL" not in answer.body.decode()


def test_database__that_will_say_the_same_again__is_an_internal_error(
    subtests: pytest.Subtests, world: World, monkeypatch
):
    for code in [
        "22P02", "23514", "42P01", "42501",  # what we sent, or may not
        "25P02",  # a failed transaction was not ended
        "54000", "54001",  # a statement of ours that is too much for it
        "XX001",  # its data are damaged
    ]:  # fmt: skip
        with subtests.test(code=code):
            _break(monkeypatch, from_postgresql(code))
            answer = send("GET", "/v1/flags/known", key=world.key)
            assert (answer.status, failure(answer)["code"]) == (500, "internal_error")


def test_database__lost_while_configuration_is_read__is_unavailable(world: World, monkeypatch):
    def fail() -> None:
        raise OperationalError("no connection")

    monkeypatch.setattr("config.snapshot.refresh", fail)
    answer = send("POST", "/v1/flags/known/evaluate", b'{"userId": "u"}', key=world.key)
    assert (answer.status, failure(answer)["code"]) == (503, "unavailable")


def test_credentials__whatever_goes_wrong__are_neither_logged_nor_answered(
    subtests: pytest.Subtests, world: World, monkeypatch, caplog
):
    caplog.set_level(logging.DEBUG)
    _break(monkeypatch, RuntimeError("broken"))
    for headers in [
        {"Authorization": f"Bearer {SECRET}"},
        {"Authorization": f"Basic {SECRET}"},
        {"Authorization": SECRET},
        {"Authorization": None, "X-API-Key": SECRET},
        {"Authorization": None, "Cookie": f"halyard_session={SECRET}"},
        {"X-CSRFToken": SECRET},
    ]:
        for target in ["/v1/flags/known", "/v1/flags/known?unknown=1", "/v1/nowhere", "/v1/events"]:
            with subtests.test(headers=headers, target=target):
                for method in ("GET", "PUT"):
                    answer = send(method, target, headers=headers, key=world.key)
                    assert SECRET not in answer.body.decode()
                    assert SECRET not in str(answer.headers)
                assert SECRET not in caplog.text
                assert world.key not in caplog.text


def test_credentials__of_a_request_that_ends_in_a_500__are_not_logged(world: World, monkeypatch, caplog):
    caplog.set_level(logging.DEBUG)
    _break(monkeypatch, RuntimeError("broken"))
    assert send("GET", "/v1/flags/known", key=world.key).status == 500
    assert caplog.records
    assert world.key not in caplog.text


def test_codes__are_the_documented_ones():
    assert {code.value: code.status for code in ErrorCode} == {
        "malformed_json": 400, "validation_failed": 400, "invalid_parameter": 400,
        "unauthenticated": 401, "forbidden": 403,
        "flag_not_found": 404, "experiment_not_found": 404, "not_found": 404, "method_not_allowed": 405,
        "body_timeout": 408,
        "already_exists": 409, "invalid_transition": 409, "experiment_not_running": 409, "experiment_locked": 409,
        "enabled_elsewhere": 409, "in_use": 409, "idempotency_conflict": 409,
        "precondition_failed": 412, "body_too_large": 413, "batch_too_large": 413, "unsupported_media_type": 415,
        "rate_limited": 429, "internal_error": 500, "unavailable": 503,
    }  # fmt: skip
    assert {code.value for code in DetailCode} == {
        "required", "unknown_field", "invalid_type", "invalid_value", "out_of_range", "too_long", "duplicate",
        "unknown_reference", "id_conflict",
    }  # fmt: skip
