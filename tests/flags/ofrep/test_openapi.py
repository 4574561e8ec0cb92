"""The OpenAPI document describes the answers of OFREP, which differ from those of /v1."""

from __future__ import annotations

from typing import Any

import pytest

from config.models import Scope
from tests.answers import data
from tests.config.api.wire import Answer, send
from tests.factories import FlagFactory, KeyFactory
from tests.flags.ofrep.calls import BULK
from tests.openapi import document, validator

ONE = f"{BULK}/{{flag_key}}"
both = pytest.mark.parametrize("path", [ONE, BULK])


def operation(path: str) -> dict[str, Any]:
    described: dict[str, Any] = document()["paths"][path]["post"]
    return described


def check(path: str, answer: Answer) -> None:
    """Fail unless an answer is described, body and headers."""
    described = operation(path)["responses"][str(answer.status)]
    assert {name.lower() for name, header in described.get("headers", {}).items() if header.get("required")} <= set(
        answer.headers
    )
    if "content" not in described:
        assert answer.body == b""
        return
    schema = described["content"]["application/json"]["schema"]
    validator(schema).validate(answer.json())


@both
def test_operation__described__has_words_security_and_every_answer(path):
    described = operation(path)
    assert described["tags"] == ["OpenFeature"]
    assert described["summary"]
    assert described["description"].endswith(".")
    assert described["security"] == [{"bearerKey": []}, {"headerKey": []}, {"adminSession": []}]
    statuses = {"200", "400", "401", "403", "500", "503"} | ({"404"} if path == ONE else {"304"})
    assert described["responses"].keys() == statuses
    for status, response in described["responses"].items():
        assert response["description"].endswith(".")
        assert ("content" in response) == (status != "304")
        assert response["headers"]["X-Request-Id"]["required"]
        assert ("WWW-Authenticate" in response["headers"]) == (status == "401")
        assert ("Retry-After" in response["headers"]) == (status == "503")
        assert ("ETag" in response["headers"]) == (path == BULK and status in ("200", "304"))


@both
def test_operation__parameters__are_those_of_the_protocol(path):
    parameters = {(parameter["in"], parameter["name"]) for parameter in operation(path)["parameters"]}
    more = {("header", "If-None-Match"), ("query", "flagConfigEtag"), ("query", "flagConfigLastModified")}
    assert parameters == ({("path", "flag_key")} if path == ONE else more)


def test_answers__of_every_kind__are_described(api):
    FlagFactory(key="base")
    half = [{"type": "percentage", "percentage": 50, "name": "Half"}]
    variants = [{"key": "a", "value": {"x": None}}]
    data(api.post("/v1/flags", {"key": "half", "enabled": True, "rules": half}), 201)
    data(api.post("/v1/flags", {"key": "all", "enabled": True, "type": "object", "variants": variants}), 201)
    _, key = KeyFactory(scope=Scope.SERVER)
    for context in (b'{"targetingKey": "u"}', b"{}", b"1"):
        body = b'{"context": %s}' % context
        answer = send("POST", BULK, body, key=key)
        check(BULK, answer)
        if answer.status == 200:
            check(BULK, send("POST", BULK, body, {"If-None-Match": answer.headers["etag"]}, key=key))
        for flag in ("base", "half", "all", "nope", "a/b"):
            check(ONE, send("POST", f"{BULK}/{flag}", body, key=key))


def test_refusals__of_every_kind__are_described(subtests, db):
    _, key = KeyFactory(scope=Scope.CLIENT)
    for path in [ONE, BULK]:
        for body, headers in [
            (b"{}", {"Authorization": "Bearer x"}), (b"", {}), (b"{", {}), (b"{}", {"Content-Type": "text/plain"}),
            (b"{}", {"X-Environment": "nowhere"}), (b"x" * (5 * 1024**2 + 1), {}),
        ]:  # fmt: skip
            with subtests.test(path=path, body=body, headers=headers):
                check(path, send("POST", path.format(flag_key="f"), body, headers, key=key))


@both
def test_defect__of_ours__is_described(db, path, monkeypatch):
    FlagFactory(key="f")
    monkeypatch.setattr("flags.ofrep.answers.resolve", lambda *_: 1 / 0)
    _, key = KeyFactory(scope=Scope.CLIENT)
    answer = send("POST", path.format(flag_key="f"), b"{}", key=key)
    assert answer.status == 500
    check(path, answer)
