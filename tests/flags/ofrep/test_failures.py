"""Failures under /ofrep have the form of the protocol, wherever they arise."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.models import User
from django.db import OperationalError
from django.test import Client

from config.models import Scope
from tests.config.api.wire import Answer, send
from tests.factories import FlagFactory, KeyFactory
from tests.flags.ofrep.calls import BULK

ONE = f"{BULK}/known"
GOOD = b'{"context": {"targetingKey": "u"}}'
LARGEST = 5 * 1024**2


@pytest.fixture
def key(db: None) -> str:
    FlagFactory(key="known", on=True)
    return str(KeyFactory(scope=Scope.CLIENT)[1])


def failure(answer: Answer, status: int, code: str | None, *, path: str = BULK) -> str:
    """Return what a failure says, after checking its code, where clients read one, and the key of its flag."""
    assert (answer.status, answer.headers["content-type"]) == (status, "application/json")
    assert UUID(answer.headers["x-request-id"])
    body = answer.json()
    expected = {"errorDetails": body["errorDetails"]}
    if code is not None:
        expected["errorCode"] = code
        if path != BULK:
            expected |= {"key": "known", "metadata": {}}
    assert body == expected
    assert body["errorDetails"]
    return str(body["errorDetails"])


both = pytest.mark.parametrize("path", [ONE, BULK])


# --- bodies ----------------------------------------------------------------------------------------------------------


def test_body__that_cannot_be_used__is_refused_with_400(subtests, key):
    for path in [ONE, BULK]:
        for body, code, said in [
            (b"", "PARSE_ERROR", "empty"),
            (b" ", "PARSE_ERROR", "JSON"),
            (b"{", "PARSE_ERROR", "JSON"),
            (b"\xff", "PARSE_ERROR", "UTF-8"),
            (b'{"context": {}} x', "PARSE_ERROR", "JSON"),
            (b"[" * 100_000, "PARSE_ERROR", "JSON"),
            (b"null", "PARSE_ERROR", "object"),
            (b"[]", "PARSE_ERROR", "object"),
            (b'"u"', "PARSE_ERROR", "object"),
            (b"1", "PARSE_ERROR", "object"),
            (b'{"context": null}', "INVALID_CONTEXT", "context: "),
            (b'{"context": "u"}', "INVALID_CONTEXT", "context: "),
            (b'{"context": []}', "INVALID_CONTEXT", "context: "),
            (b'{"context": {"targetingKey": 17}}', "INVALID_CONTEXT", "context.targetingKey: "),
            (b'{"context": {"targetingKey": {}}}', "INVALID_CONTEXT", "context.targetingKey: "),
            (b'{"context": {"targetingKey": "' + b"u" * 201 + b'"}}', "INVALID_CONTEXT", "context.targetingKey: "),
            (b'{"context": {"targetingKey": "\\u0000"}}', "INVALID_CONTEXT", "context.targetingKey: "),
            (b'{"context": {"targetingKey": "\\ud800"}}', "INVALID_CONTEXT", "context.targetingKey: "),
            (b'{"context": {"a": [1, "\\u0000"]}}', "INVALID_CONTEXT", "context.a[1]: "),
            (b'{"context": {"a\\u0000": 1}}', "INVALID_CONTEXT", "context: "),
            (b'{"context": {"a": NaN}}', "INVALID_CONTEXT", "context.a: "),
            (b'{"context": {"a": 1e999}}', "INVALID_CONTEXT", "context.a: "),
            (b'{"context": {"a": 18446744073709551616}}', "INVALID_CONTEXT", "context.a: "),
            (b'{"context": {"a": ' + b"[" * 70 + b"]" * 70 + b"}}", "INVALID_CONTEXT", "context.a"),
            (b'{"context": {"a": 1, "a": 2}}', "INVALID_CONTEXT", "context.a: "),
            (b'{"context": {}, "context": {}}', "INVALID_CONTEXT", "context: "),
            (b"x" * (LARGEST + 1), "GENERAL", "5 MiB"),
        ]:
            with subtests.test(path=path, body=body):
                assert said in failure(send("POST", path, body, key=key), 400, code, path=path)


def test_body__of_another_media_type__is_refused_with_400(subtests, key):
    for path in [ONE, BULK]:
        for media_type in [
            None, "", "text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin-1", ";",
        ]:  # fmt: skip
            with subtests.test(path=path, media_type=media_type):
                answer = send("POST", path, GOOD, {"Content-Type": media_type}, key=key)
                assert "application/json" in failure(answer, 400, "PARSE_ERROR", path=path)


def test_body__that_can_be_used__is_read_however_it_comes(subtests, key):
    for path in [ONE, BULK]:
        for body in [
            b"{}",
            b'{"context": {}}',
            b'{"context": {"targetingKey": null}, "more": [1]}',
            b'{"context": {"targetingKey": "\xf0\x9f\x99\x82", "a": {"b": [null]}}}',
            b'{"context": {"a": "' + b"x" * (LARGEST - 22) + b'"}}',
        ]:
            for chunked in [{}, {"Transfer-Encoding": "chunked"}]:
                with subtests.test(path=path, body=body, chunked=chunked):
                    answer = send("POST", f"{path}?more=1&more=2", body, chunked, key=key)
                    assert answer.status == 200, answer.body[:200]


def test_answer__whatever_accept_says__is_json(subtests, key):
    for path in [ONE, BULK]:
        for accept in [None, "*/*", "text/html", "application/xml", "x"]:
            with subtests.test(path=path, accept=accept):
                assert (
                    send("POST", path, GOOD, {"Accept": accept}, key=key).headers["content-type"] == "application/json"
                )


# --- callers ---------------------------------------------------------------------------------------------------------


def test_caller__without_a_good_key__is_unauthenticated(subtests, key):
    for path in [ONE, BULK]:
        for authorization in [None, "Bearer x", "Basic x", "", "\xfc"]:
            with subtests.test(path=path, authorization=authorization):
                answer = send("POST", path, GOOD, {"Authorization": authorization})
                failure(answer, 401, None)
                assert answer.headers["www-authenticate"] == "Bearer"


def test_caller__with_its_key_in_either_header__is_answered(key):
    for headers in ({"Authorization": f"Bearer {key}"}, {"X-API-Key": key}):
        assert send("POST", BULK, GOOD, headers).status == 200


@both
def test_caller__with_a_key_of_another_environment_than_it_names__is_reported(key, path):
    answer = send("POST", path, GOOD, {"X-Environment": "staging"}, key=key)
    assert "X-Environment" in failure(answer, 400, "GENERAL", path=path)


@both
def test_user__who_may_not_see_flags__is_forbidden(key, path):
    client = Client()
    client.force_login(User.objects.create(username="nobody", is_staff=True))
    response = client.post(path, GOOD, content_type="application/json")
    assert (response.status_code, response.json().keys()) == (403, {"errorDetails"})
    assert "flags.view_flag" in response.json()["errorDetails"]


@both
def test_user__without_a_csrf_token__is_forbidden(key, path):
    client = Client(enforce_csrf_checks=True)
    client.force_login(User.objects.create(username="admin", is_staff=True, is_superuser=True))
    response = client.post(path, GOOD, content_type="application/json")
    assert (response.status_code, response.json().keys()) == (403, {"errorDetails"})


# --- paths and methods -----------------------------------------------------------------------------------------------


def test_method__other_than_post__is_not_allowed(subtests, key):
    for path in [ONE, BULK]:
        for method in ["GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS"]:
            with subtests.test(path=path, method=method):
                answer = send(method, path, key=key)
                assert (answer.status, answer.headers["allow"]) == (405, "POST")
                assert method == "HEAD" or answer.json().keys() == {"errorDetails"}


def test_path__that_is_none__is_not_found(subtests, db):
    for path in [
        "/ofrep", "/ofrep/", "/ofrep/v1", "/ofrep/v1/configuration", "/ofrep/v1/evaluate/flags/", "/ofrep/v2/x",
    ]:  # fmt: skip
        for method in ["GET", "POST"]:
            with subtests.test(path=path, method=method):
                failure(send(method, path, b""), 404, None)


@both
def test_host__that_is_not_ours__is_refused(key, path):
    failure(send("POST", path, GOOD, {"Host": "evil.example"}, key=key), 400, None)


# --- our own trouble -------------------------------------------------------------------------------------------------


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Let every evaluation raise an error."""

    def breaks(error: Exception) -> None:
        def fail(*_: Any) -> Any:
            raise error

        monkeypatch.setattr("flags.ofrep.answers.resolve", fail)

    return breaks


@both
def test_defect__of_ours__is_reported_and_logged(key, broken, path, caplog):
    broken(ZeroDivisionError("a secret"))
    answer = send("POST", path, GOOD, key=key)
    assert "secret" not in failure(answer, 500, "GENERAL", path=path)
    assert answer.headers["x-request-id"] in caplog.text


@both
def test_defect__outside_of_the_view__is_reported(key, path, monkeypatch):
    monkeypatch.setattr("django.middleware.common.CommonMiddleware.process_request", lambda *_: 1 / 0)
    failure(send("POST", path, GOOD, key=key), 500, None)


@both
def test_database__that_is_away__is_a_reason_to_come_back(key, broken, path):
    broken(OperationalError("the database is away"))
    answer = send("POST", path, GOOD, key=key)
    failure(answer, 503, None)
    assert int(answer.headers["retry-after"]) >= 1
