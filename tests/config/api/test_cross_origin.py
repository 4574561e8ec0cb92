"""Which pages of other sites may call: those of CORS_ALLOWED_ORIGINS, and only to evaluate, assign and track."""

from __future__ import annotations

import pytest

from config.models import Scope
from tests.config.api.calls import CALLS
from tests.config.api.conftest import World
from tests.config.api.wire import failure, send

SHOP = "https://shop.example"
OPEN = {
    "/v1/flags/known/evaluate": b'{"userId": "u"}',
    "/v1/evaluate": b'{"userId": "u"}',
    "/v1/experiments/running/variant": b'{"userId": "u"}',
    "/v1/variants": b'{"userId": "u"}',
    "/v1/events": b'{"event": "view", "userId": "u"}',
    "/v1/events/batch": b'{"events": [{"event": "view", "userId": "u"}]}',
}
CLOSED = [
    "/v1/flags",
    "/v1/flags/known",
    "/v1/flags/known/explain",
    "/v1/flags/known/archive",
    "/v1/evaluate/flags",
    "/v1/segments",
    "/v1/metrics",
    "/v1/audit",
    "/v1/environments",
    "/v1/keys",
    "/v1/experiments",
    "/v1/experiments/running",
    "/v1/experiments/running/stop",
    "/v1/events/counts",
    "/v1/events/evaluate",
    "/v1/users/u",
    "/v1/flags/a/b/evaluate",
    "/v1/schema",
    "/admin/",
]
OTHERS = [
    "https://evil.example",
    "http://shop.example",
    "https://shop.example.evil.example",
    "https://shop.example:8443",
    "null",
]


def preflight(path: str, origin: str = SHOP, method: str = "POST", headers: str = "authorization,content-type"):
    return send(
        "OPTIONS",
        path,
        headers={
            "Origin": origin,
            "Access-Control-Request-Method": method,
            "Access-Control-Request-Headers": headers,
        },
    )


def allows(answer) -> bool:
    return any(name.startswith("access-control-") for name in answer.headers)


def test_preflight__from_a_configured_origin__allows_what_clients_do(subtests, db):
    for path in OPEN:
        with subtests.test(path=path):
            answer = preflight(path)
            assert answer.status == 200
            assert answer.headers["access-control-allow-origin"] == SHOP
            assert answer.headers["access-control-allow-methods"] == "POST"
            allowed = {name.strip() for name in answer.headers["access-control-allow-headers"].split(",")}
            assert allowed == {
                "authorization", "content-encoding", "content-type", "idempotency-key",
                "if-none-match", "x-api-key", "x-request-id",
            }  # fmt: skip
            assert "access-control-allow-credentials" not in answer.headers
            assert "origin" in answer.headers["vary"].lower()


def test_preflight__of_what_client_keys_may_call__is_allowed(subtests, db):
    for path in [call.path for call in CALLS if call.scope is Scope.CLIENT]:
        with subtests.test(path=path):
            assert preflight(path).headers["access-control-allow-origin"] == SHOP


def test_call__from_a_configured_origin__can_be_read(subtests: pytest.Subtests, world: World):
    for path in OPEN:
        with subtests.test(path=path):
            answer = send("POST", path, OPEN[path], {"Origin": SHOP}, key=world.key)
            assert answer.status in (200, 202)
            assert answer.headers["access-control-allow-origin"] == SHOP
            exposed = {name.strip() for name in answer.headers["access-control-expose-headers"].split(",")}
            assert exposed == {
                "ETag",
                "Idempotent-Replayed",
                "RateLimit",
                "Retry-After",
                "X-Request-Id",
                "X-Revision",
                "X-Stale",
            }
            assert "access-control-allow-credentials" not in answer.headers


def test_failed_call__from_a_configured_origin__can_be_read_too(subtests: pytest.Subtests, world: World):
    for path in OPEN:
        with subtests.test(path=path):
            for answer in (
                send("POST", path, b"{", {"Origin": SHOP}, key=world.key),
                send("POST", path, OPEN[path], {"Origin": SHOP}),
                send("POST", path, OPEN[path], {"Origin": SHOP, "Content-Type": "text/plain"}, key=world.key),
            ):
                failure(answer)
                assert answer.headers["access-control-allow-origin"] == SHOP


def test_defect_outside_of_a_view__from_a_configured_origin__can_be_read_too(world: World, monkeypatch):
    monkeypatch.setattr("django.middleware.common.CommonMiddleware.process_request", lambda *_: 1 / 0)
    answer = send("POST", "/v1/events", OPEN["/v1/events"], {"Origin": SHOP}, key=world.key)
    assert failure(answer)["code"] == "internal_error"
    assert answer.headers["access-control-allow-origin"] == SHOP


def test_any_call__from_another_origin__is_not_allowed(subtests: pytest.Subtests, world: World):
    for origin in OTHERS:
        for path in OPEN:
            with subtests.test(origin=origin, path=path):
                assert "access-control-allow-origin" not in preflight(path, origin).headers
                answer = send("POST", path, OPEN[path], {"Origin": origin}, key=world.key)
                assert "access-control-allow-origin" not in answer.headers


def test_other_operations__from_a_configured_origin__are_not_allowed(subtests: pytest.Subtests, world: World):
    for path in CLOSED:
        with subtests.test(path=path):
            assert not allows(preflight(path))
            assert not allows(preflight(path, method="GET"))
            assert not allows(send("GET", path, headers={"Origin": SHOP}, key=world.key))


def test_query_of_events__from_a_configured_origin__cannot_be_read(world: World):
    answer = send("GET", "/v1/events", headers={"Origin": SHOP}, key=world.key)
    assert answer.status == 200
    assert not allows(answer)


def test_call__from_no_origin__needs_nobody_s_leave(world: World):
    answer = send("POST", "/v1/events", OPEN["/v1/events"], key=world.key)
    assert answer.status == 202
    assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize("origin", ["", "http://[", "\xfc", "https://"])
def test_call__from_an_origin_that_is_no_url__is_answered_without_leave(world: World, origin):
    answer = send("POST", "/v1/events", OPEN["/v1/events"], {"Origin": origin}, key=world.key)
    assert answer.status == 202
    assert "access-control-allow-origin" not in answer.headers
