"""Pages of origins in CORS_ALLOWED_ORIGINS may ask for flags, and read everything that clients read."""

from __future__ import annotations

import pytest

from config.models import Scope
from tests.config.api.wire import Answer, send
from tests.factories import FlagFactory, KeyFactory
from tests.flags.ofrep.calls import BULK

SHOP = "https://shop.example"
GOOD = b'{"context": {"targetingKey": "u"}}'
both = pytest.mark.parametrize("path", [f"{BULK}/known", BULK])


@pytest.fixture
def key(db: None) -> str:
    FlagFactory(key="known", on=True)
    return str(KeyFactory(scope=Scope.CLIENT)[1])


def preflight(path: str, origin: str = SHOP) -> Answer:
    headers = {
        "Origin": origin,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,content-type,if-none-match",
    }
    return send("OPTIONS", path, headers=headers)


def listed(answer: Answer, header: str) -> set[str]:
    return {name.strip() for name in answer.headers[header].split(",")}


@both
def test_preflight__from_a_configured_origin__allows_what_clients_send(db, path):
    answer = preflight(path)
    assert (answer.status, answer.headers["access-control-allow-origin"]) == (200, SHOP)
    assert answer.headers["access-control-allow-methods"] == "POST"
    wanted = {"authorization", "content-type", "if-none-match", "x-api-key"}
    assert wanted <= listed(answer, "access-control-allow-headers")


@both
def test_answer__of_any_kind__to_a_configured_origin_can_be_read(key, path):
    tag = send("POST", BULK, GOOD, key=key).headers["etag"]
    for answer in (
        send("POST", path, GOOD, {"Origin": SHOP}, key=key),
        send("POST", path, GOOD, {"Origin": SHOP, "If-None-Match": tag}, key=key),
        send("POST", path, b"{", {"Origin": SHOP}, key=key),
        send("POST", path, GOOD, {"Origin": SHOP}),
        send("POST", f"{BULK}/a/b", GOOD, {"Origin": SHOP}, key=key),
    ):
        assert answer.headers["access-control-allow-origin"] == SHOP
        assert {"ETag", "Retry-After"} <= listed(answer, "access-control-expose-headers")
        assert "access-control-allow-credentials" not in answer.headers


def test_call__from_another_origin__cannot_be_read(subtests, key):
    for path in [f"{BULK}/known", BULK]:
        for origin in ["https://evil.example", "http://shop.example", "null"]:
            with subtests.test(path=path, origin=origin):
                assert "access-control-allow-origin" not in preflight(path, origin).headers
                answer = send("POST", path, GOOD, {"Origin": origin}, key=key)
                assert "access-control-allow-origin" not in answer.headers


def test_other_paths__from_a_configured_origin__are_not_allowed(subtests, db):
    for path in ["/ofrep/v1/evaluate", "/ofrep/v1/streams/production", f"{BULK}x", "/ofrep"]:
        with subtests.test(path=path):
            assert "access-control-allow-origin" not in preflight(path).headers
